package main

import (
	"archive/tar"
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/outriderhq/outrider/internal/testenv"
)

// container is the image's file system, and how its programs are called: as its user, with its environment, below a root
// that nobody can write to.
type container struct {
	t    *testing.T
	root string
	file *v1.ConfigFile
	env  []string
}

func unpack(t *testing.T, image v1.Image) *container {
	t.Helper()
	c := &container{t: t, root: t.TempDir()}
	eachFile(t, image, func(h *tar.Header, content io.Reader) {
		at := filepath.Join(c.root, h.Name)
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(at, 0o700))
		} else {
			text, err := io.ReadAll(content)
			must(t, err)
			must(t, os.WriteFile(at, text, 0o600))
		}
		must(t, os.Chown(at, h.Uid, h.Gid))
		must(t, os.Chmod(at, os.FileMode(h.Mode)))
	})
	must(t, os.Chmod(c.root, 0o755))
	must(t, os.Chmod(filepath.Dir(c.root), 0o755))
	var err error
	c.file, err = image.ConfigFile()
	must(t, err)
	return c
}

func (c *container) command(args ...string) *exec.Cmd {
	c.t.Helper()
	const enter = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && chroot=$1 && user=$2 && shift 2 && exec $chroot --userspec=$user --groups= "$0" "$@"`
	chroot, err := exec.LookPath("chroot") // the image's PATH does not have it
	must(c.t, err)
	cmd := exec.Command("unshare", append([]string{"--mount", "--", "sh", "-c", enter, c.root, chroot, c.file.Config.User}, args...)...)
	cmd.Env = slices.Concat(c.env, c.file.Config.Env)
	return cmd
}

// call runs the entry point with other arguments, or, as a health check does, a command of its own.
func (c *container) call(args ...string) (string, error) {
	c.t.Helper()
	out, err := c.command(args...).CombinedOutput()
	return string(out), err
}

func (c *container) must(args ...string) string {
	c.t.Helper()
	out, err := c.call(append(c.file.Config.Entrypoint, args...)...)
	if err != nil {
		c.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// The image's program starts with a root that is read-only, delivers from PostgreSQL, and is healthy by the image's own check.
func TestTheImageStarts(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("needs root, to enter the image's file system as its user")
	}
	_, found := images(t)
	c := unpack(t, found[runtime.GOARCH])
	c.env = []string{"DATABASE_URL=" + testenv.Postgres(t), "TZ=Asia/Kathmandu"}
	admin, probes := testenv.FreePort(t), testenv.FreePort(t)
	must(t, os.WriteFile(filepath.Join(c.root, config), fmt.Appendf(nil, `
admin: {listen: "127.0.0.1:%s", probes: "0.0.0.0:%s"}
log: {format: json}
sources: {app: {type: postgres, url: "${DATABASE_URL}"}}
destinations: {out: {type: log}}
routes: {all: {from: app, to: out}}
`, admin, probes), 0o644))
	if out := c.must("version"); !strings.Contains(out, version) || !strings.Contains(out, commit) {
		t.Errorf("version says %s", out)
	}
	if out, err := c.call("/usr/bin/outrider", "init", "-c", "/none.yaml"); err == nil {
		t.Errorf("a file that does not exist: %s", out)
	}
	c.must("validate")
	c.must("init")
	health := c.file.Config.Healthcheck.Test[1:]
	if out, err := c.call(health...); err == nil {
		t.Errorf("healthy before it runs: %s", out)
	}

	relay := c.command(append(c.file.Config.Entrypoint, c.file.Config.Cmd...)...)
	stderr, err := relay.StderrPipe()
	must(t, err)
	must(t, relay.Start())
	t.Cleanup(func() { _ = relay.Process.Kill() }) // without effect after Wait
	lines := bufio.NewScanner(stderr)
	await := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the relay ended without logging %q", text)
	}
	await(`"msg":"ready"`)
	if !strings.Contains(lines.Text(), "+05:45") {
		t.Errorf("the time zone is missing: %s", lines.Text())
	}
	if out, err := c.call(health...); err != nil || out != "ok\n" {
		t.Errorf("the health check: %v %s", err, out)
	}
	id := strings.TrimSpace(c.must("publish", "--type", "order.created", "--payload", "1"))
	await(id)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", relay.Process.Pid))
	must(t, err)
	for _, want := range []string{"Uid:\t65532\t65532\t65532\t65532", "CapEff:\t0000000000000000"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the process has not %q:\n%s", want, status)
		}
	}
	must(t, relay.Process.Signal(syscall.SIGTERM))
	await("stopped: all results are written down")
	for lines.Scan() { // to the end
	}
	if err := relay.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	// The state's folder is the user's, and read-only here, which SQLite says.
	must(t, os.WriteFile(filepath.Join(c.root, config), []byte("sources: {app: {type: sqlite, path: app.db}}\ndestinations: {out: {type: log}}\nroutes: {all: {from: app, to: out}}\n"), 0o644))
	if out, err := c.call("/usr/bin/outrider", "init"); err == nil {
		t.Errorf("a file was created on a root that is read-only: %s", out)
	}
}
