package provision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Host finds and installs programs on this machine.
type Host struct {
	// Install allows to install missing programs. Otherwise a missing program is
	// an error that says how to get it.
	Install bool

	// Say reports every step that takes a while. It may be nil.
	Say func(format string, args ...any)
}

func (h Host) say(format string, args ...any) {
	if h.Say != nil {
		h.Say(format, args...)
	}
}

// run runs an installer, says that it continues, and returns an error that ends
// with its output.
func (h Host) run(ctx context.Context, what string, cmd *exec.Cmd) error {
	h.say("%s ...", what)
	begin := time.Now()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()

	progress := time.NewTicker(10 * time.Second)
	defer progress.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", what, errors.Join(err, ctx.Err()), lastLines(out.String(), 15))
			}
			h.say("%s: done in %v", what, time.Since(begin).Round(100*time.Millisecond))
			return nil
		case <-progress.C:
			h.say("%s: still busy after %v", what, time.Since(begin).Round(time.Second))
		}
	}
}

// apt installs Debian packages. It reports false when this machine cannot
// (no apt, or not root); the caller then goes another way.
func (h Host) apt(ctx context.Context, packages ...string) (bool, error) {
	if !hasApt() {
		return false, nil
	}
	update := exec.CommandContext(ctx, "apt-get", "update", "-q")
	if err := h.run(ctx, "reading the lists of packages", update); err != nil {
		return true, err
	}
	args := append([]string{
		"install", "-y", "-q", "--no-install-recommends",
		"-o", "DPkg::Lock::Timeout=300", // another installation may be running
	}, packages...)
	install := exec.CommandContext(ctx, "apt-get", args...)
	install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return true, h.run(ctx, "installing "+strings.Join(packages, ", "), install)
}

// hasApt reports whether we may install Debian's packages here.
func hasApt() bool {
	_, err := exec.LookPath("apt-get")
	return err == nil && os.Geteuid() == 0
}

// cacheDir returns the folder for downloads. Root's is not in its home folder,
// because other users cannot run anything from there and PostgreSQL must not
// run as root.
func cacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/outrider", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w", err)
	}
	return filepath.Join(dir, "outrider"), nil
}

// fill makes a cache folder atomically: an interrupted or concurrent download leaves
// no incomplete folder under its name.
func fill(target string, download func(dir string) error) error {
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("make the cache folder: %w", err)
	}
	dir, err := os.MkdirTemp(parent, "partial-")
	if err != nil {
		return fmt.Errorf("make a folder in the cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := download(dir); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("open the cache folder to other users: %w", err)
	}
	if err := os.Rename(dir, target); err != nil && !isDir(target) {
		return fmt.Errorf("name the cache folder: %w", err)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// DockerHint returns a sentence about docker compose when a docker engine runs
// here, otherwise nothing.
func DockerHint(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if exec.CommandContext(ctx, "docker", "info").Run() != nil {
		return ""
	}
	return "Docker runs here: `docker compose up -d` starts the servers; compose.yaml says which variables to set."
}

// lastLines returns the end of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
