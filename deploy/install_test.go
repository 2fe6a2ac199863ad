package deploy

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

// machine is a folder in which dpkg installs as into the root folder. It runs the scripts of packages, without chroot, and they know of the
// folder by DPKG_ROOT.
type machine struct {
	t    *testing.T
	root string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("packages are for Linux")
	}
	need(t, "dpkg", "dpkg")
	if os.Geteuid() != 0 {
		t.Skip("dpkg makes files of root, which only root can")
	}
	m := &machine{t, t.TempDir()}
	for _, folder := range []string{"etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"} {
		if err := os.MkdirAll(m.path(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.write("/var/lib/dpkg/status", "")
	return m
}

func (m *machine) path(path string) string { return filepath.Join(m.root, path) }

func (m *machine) write(path, text string) {
	m.t.Helper()
	if err := os.WriteFile(m.path(path), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) dpkg(args ...string) string {
	m.t.Helper()
	return run(m.t, "dpkg", append([]string{"--root=" + m.root, "--force-script-chrootless", "--force-confold"}, args...)...)
}

// files are those of the machine, but for dpkg's own.
func (m *machine) files() (files []string) {
	m.t.Helper()
	err := fs.WalkDir(os.DirFS(m.root), ".", func(path string, d fs.DirEntry, err error) error {
		if path == "var/lib/dpkg" || path == "var/log" {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return files
}

// nextVersion makes a later package of one, with another configuration in it.
func nextVersion(t *testing.T, deb string) string {
	t.Helper()
	folder, next := filepath.Join(t.TempDir(), "deb"), filepath.Join(t.TempDir(), "next.deb")
	run(t, "dpkg-deb", "-R", deb, folder)
	control := regexp.MustCompile(`(?m)^Version: .*$`).ReplaceAllString(read(t, folder+"/DEBIAN/control"), "Version: 99.0.0")
	for path, text := range map[string]string{"DEBIAN/control": control, "etc/outrider/outrider.yaml": "# of the next version\n"} {
		if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "dpkg-deb", "--root-owner-group", "-Znone", "-b", folder, next)
	return next
}

func TestReleaseDebKeepsTheConfigurationUntilPurged(t *testing.T) {
	m := newMachine(t)
	snapshot(t)
	deb := made(t, "outrider_*_"+runtime.GOARCH+".deb")
	if out := m.dpkg("-i", deb); !strings.Contains(out, "outrider doctor --config /etc/outrider/outrider.yaml") || !strings.Contains(out, "systemctl enable --now outrider") {
		t.Errorf("it does not say what to do next:\n%s", out)
	}
	// The configuration as it is installed is valid.
	run(t, m.path("/usr/bin/outrider"), "validate", m.path("/etc/outrider/outrider.yaml"))
	run(t, "bash", "-n", m.path("/usr/share/bash-completion/completions/outrider"))

	const edited = "# edited\n"
	m.write("/etc/outrider/outrider.yaml", edited)
	if out := m.dpkg("-i", nextVersion(t, deb)); strings.Contains(out, "outrider doctor") {
		t.Errorf("an upgrade says how to begin:\n%s", out)
	}
	if got := read(t, m.path("/etc/outrider/outrider.yaml")); got != edited {
		t.Errorf("the upgrade replaced the configuration by %q", got)
	}
	if got := read(t, m.path("/etc/outrider/outrider.yaml.dpkg-dist")); got != "# of the next version\n" {
		t.Errorf("the configuration of the package is %q", got)
	}

	if err := os.MkdirAll(m.path("/var/lib/private/outrider"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.write("/var/lib/private/outrider/state.db", "state")
	m.dpkg("--remove", "outrider")
	if got, want := m.files(), []string{"etc/outrider/outrider.env", "etc/outrider/outrider.yaml", "etc/outrider/outrider.yaml.dpkg-dist", "var/lib/private/outrider/state.db"}; !slices.Equal(got, want) {
		t.Errorf("a removal leaves %v, want %v", got, want)
	}
	m.dpkg("--purge", "outrider")
	if got := m.files(); len(got) > 0 {
		t.Errorf("a purge leaves %v", got)
	}
	if _, err := os.Stat(m.path("/etc/outrider")); !os.IsNotExist(err) {
		t.Errorf("a purge leaves /etc/outrider (%v)", err)
	}
}

// command is one of the installed unit, as systemd would run it on this machine.
func (m *machine) command(key string) []string {
	m.t.Helper()
	for line := range strings.Lines(read(m.t, m.path("/usr/lib/systemd/system/outrider.service"))) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			value = strings.NewReplacer("/usr/bin/outrider", m.path("/usr/bin/outrider"), "/etc/outrider", m.path("/etc/outrider")).Replace(value)
			return strings.Fields(value)
		}
	}
	m.t.Fatalf("the unit has no %s", key)
	return nil
}

// environment is that of the unit's EnvironmentFile.
func (m *machine) environment() []string {
	env := append(os.Environ(), m.command("Environment")...)
	for line := range strings.Lines(read(m.t, m.path("/etc/outrider/outrider.env"))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			env = append(env, line)
		}
	}
	return env
}

// outrider runs the installed program with the configuration and the environment of the service.
func (m *machine) outrider(args ...string) string {
	m.t.Helper()
	cmd := exec.Command(m.path("/usr/bin/outrider"), append(args, "--config", m.path("/etc/outrider/outrider.yaml"))...)
	cmd.Env = m.environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("outrider %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// service is a process that the unit's ExecStart started.
type service struct {
	*exec.Cmd
	log    bytes.Buffer
	socket *net.UnixConn // takes what the process tells systemd
}

func (m *machine) start(ctx context.Context) *service {
	m.t.Helper()
	state := m.path("/var/lib/outrider") // StateDirectory
	if err := os.MkdirAll(state, 0o700); err != nil {
		m.t.Fatal(err)
	}
	args := m.command("ExecStart")
	s := &service{Cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	at := filepath.Join(m.t.TempDir(), "notify")
	var err error
	if s.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"}); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = s.socket.Close() })
	s.Dir, s.Stdout, s.Stderr = state, &s.log, &s.log
	s.Env = append(m.environment(), "NOTIFY_SOCKET="+at, "WATCHDOG_USEC=500000")
	if err := s.Start(); err != nil {
		m.t.Fatal(err)
	}
	return s
}

// await reads what the process tells systemd until it is this state, which is the next but for pings of the watchdog.
func (s *service) await(t *testing.T, state string) string {
	t.Helper()
	if err := s.socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for buffer := make([]byte, 4096); ; {
		n, err := s.socket.Read(buffer)
		if err != nil {
			t.Fatalf("waiting for %s: %v", state, err)
		}
		message := string(buffer[:n])
		switch first, _, _ := strings.Cut(message, "\n"); first {
		case state:
			return message
		case "WATCHDOG=1":
		default:
			t.Fatalf("%q comes before %s", message, state)
		}
	}
}

func TestReleaseServiceStartsReloadsAndStops(t *testing.T) {
	database := testenv.Postgres(t)
	m := newMachine(t)
	snapshot(t)
	m.dpkg("-i", made(t, "outrider_*_"+runtime.GOARCH+".deb"))
	m.write("/etc/outrider/outrider.env", "DATABASE_URL="+database+"\n")
	m.outrider("init")
	m.outrider("doctor")

	s := m.start(t.Context())
	s.await(t, "READY=1")
	s.await(t, "WATCHDOG=1")
	id := strings.TrimSpace(m.outrider("publish", "--type", "order.created", "--payload", "1"))
	for delivered := false; !delivered; {
		delivered = strings.Contains(m.outrider("event", id), "delivered")
		if t.Context().Err() != nil {
			t.Fatal("not delivered")
		}
	}

	reload := strings.Join(m.command("ExecReload"), " ") // it has quotes
	run(t, "/bin/sh", "-c", strings.ReplaceAll(reload, "$MAINPID", strconv.Itoa(s.Process.Pid)))
	if message := s.await(t, "RELOADING=1"); !strings.Contains(message, "\nMONOTONIC_USEC=") {
		t.Errorf("%q lacks the time", message)
	}
	s.await(t, "READY=1")
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.await(t, "STOPPING=1")
	if err := s.Wait(); err != nil || !strings.Contains(s.log.String(), "stopped: all results are written down") {
		t.Errorf("it ended with %v:\n%s", err, &s.log)
	}
	if !strings.Contains(s.log.String(), id) {
		t.Errorf("message %s is not in the log:\n%s", id, &s.log)
	}

	s = m.start(t.Context())
	s.await(t, "READY=1")
	if err := s.Process.Signal(syscall.SIGABRT); err != nil { // as the watchdog does
		t.Fatal(err)
	}
	if err := s.Wait(); !s.ProcessState.Sys().(syscall.WaitStatus).Signaled() || !strings.Contains(s.log.String(), "goroutine ") {
		t.Errorf("it ended with %v, which systemd takes for a faulty configuration:\n%s", err, &s.log)
	}
}

// RestartPreventExitStatus has the status of a configuration with errors, which a restart would not mend.
func TestReleaseServiceDoesNotRestartWithAnInvalidConfiguration(t *testing.T) {
	m := newMachine(t)
	snapshot(t)
	m.dpkg("-i", made(t, "outrider_*_"+runtime.GOARCH+".deb"))
	m.write("/etc/outrider/outrider.yaml", "routes: {orders: {from: nowhere}}\n")
	s := m.start(t.Context())
	_ = s.Wait()
	if want := m.command("RestartPreventExitStatus"); !slices.Equal(want, []string{"2"}) || s.ProcessState.ExitCode() != 2 {
		t.Errorf("it exits with status %d, and the unit names %v:\n%s", s.ProcessState.ExitCode(), want, &s.log)
	}
}
