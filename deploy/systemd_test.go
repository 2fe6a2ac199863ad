package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const unit = "systemd/outrider.service"

// need returns the path of a program that a Debian package has, and installs that as root.
func need(t *testing.T, program, debian string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	if _, err := exec.LookPath("apt-get"); err == nil && os.Geteuid() == 0 {
		install := exec.Command("sh", "-c", "apt-get update -q && apt-get install -yq --no-install-recommends "+debian)
		install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := install.CombinedOutput(); err != nil {
			t.Logf("%v: %s", err, out)
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("needs %s, of Debian's package %s; as root the test installs it with apt", program, debian)
	}
	return path
}

// systemd itself does not run in tests, so that `systemctl start` works is not tested here. What it reads, it also verifies.
func TestSystemdVerifiesTheUnit(t *testing.T) {
	analyze := need(t, "systemd-analyze", "systemd")
	text := read(t, unit)
	program := filepath.Join(t.TempDir(), "outrider")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	verify := func(text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "outrider.service")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/usr/bin/outrider", program)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "--man=no", "verify", file).CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		var ours []string // it also says what it finds in other units of this machine
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "outrider") {
				ours = append(ours, line)
			}
		}
		return strings.Join(ours, "")
	}
	if out := verify(text); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	if out := verify(strings.Replace(text, "ProtectSystem=", "ProtectSytem=", 1)); !strings.Contains(out, "ProtectSytem") {
		t.Errorf("systemd-analyze verify does not find a wrong key: %q", out)
	}
}

// The score goes from 0 to 10, and less is better. What is left of it is the network, which a relay needs, and the root folder.
func TestTheUnitIsHardened(t *testing.T) {
	analyze := need(t, "systemd-analyze", "systemd")
	out, err := exec.Command(analyze, "security", "--offline=yes", "--no-pager", unit).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := regexp.MustCompile(`Overall exposure level for outrider.service: ([0-9.]+)`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no score: %s", out)
	}
	score, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil || score > 1.2 {
		t.Errorf("systemd-analyze security says %s, want 1.2 or less (%v):\n%s", found[1], err, out)
	}
	t.Logf("systemd-analyze security: %s", found[1])
}

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
