package faults_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that must happen. It is no
// measurement: a machine that is busy with other things may use it up.
const patience = 3 * time.Minute

// build is a program that tests share. It is built once per run.
type build struct {
	once sync.Once
	dir  string
	err  error
}

// built is the program under test. It is built without -race: it is
// killed by the dozen, and what a race detector adds is tested in-process.
var built build

// program returns the path of the built program.
func program(t *testing.T) string {
	t.Helper()
	return built.path(t, func(_, binary string) error {
		return run(".", nil, "go", "build", "-ldflags=-s -w", "-o", binary, "github.com/outriderhq/outrider/cmd/outrider")
	})
}

// path returns the path of the program, which construct has written to binary. It may
// also use the folder dir, which is empty at first.
func (b *build) path(t *testing.T, construct func(dir, binary string) error) string {
	t.Helper()
	b.once.Do(func() {
		b.dir, b.err = os.MkdirTemp("", "outrider-faults-") //nolint:usetesting // it outlives the test that is first
		if b.err == nil {
			b.err = construct(b.dir, filepath.Join(b.dir, "outrider"))
		}
	})
	must(t, b.err)
	return filepath.Join(b.dir, "outrider")
}

// remove deletes the program.
func (b *build) remove() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}

// relay is one process of the program.
type relay struct {
	t      *testing.T
	cmd    *exec.Cmd
	config string // path of its configuration
	log    string // path of its output
	done   chan struct{}
	err    error // of Wait, once done
}

// start starts the program with a configuration. It is killed at the end of the
// test, and its output shown if the test failed.
func start(t *testing.T, config string) *relay {
	t.Helper()
	return startWith(t, config)
}

// startWith starts the program with further variables in its environment.
func startWith(t *testing.T, config string, env ...string) *relay {
	t.Helper()
	return startBinary(t, program(t), config, env...)
}

// startInstance is [startWith] for a process with a name.
func startInstance(t *testing.T, name, config string, env ...string) *relay {
	t.Helper()
	return startArgs(t, program(t), []string{"--instance", name}, config, env...)
}

// startBinary is [startWith] for another build of the program.
func startBinary(t *testing.T, binary, config string, env ...string) *relay {
	t.Helper()
	return startArgs(t, binary, nil, config, env...)
}

func startArgs(t *testing.T, binary string, args []string, config string, env ...string) *relay {
	t.Helper()
	file := writeConfig(t, config)
	out, err := os.Create(filepath.Join(filepath.Dir(file), "log"))
	must(t, err)
	cmd := exec.Command(binary, append([]string{"run", "-c", file}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), env...)
	must(t, cmd.Start())
	must(t, out.Close())
	r := &relay{t: t, cmd: cmd, config: file, log: out.Name(), done: make(chan struct{})}
	go func() {
		r.err = cmd.Wait()
		close(r.done)
	}()
	t.Cleanup(func() {
		r.dump()
		r.kill()
		if text := r.output(); t.Failed() && text != "" {
			text, _, _ = strings.Cut(text, "\nSIGQUIT: ")
			t.Logf("the end of the relay's output:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return r
}

// writeConfig writes a configuration to a file in a directory of its own.
func writeConfig(t *testing.T, config string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "outrider.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	return file
}

// dump keeps what a process was doing when its test failed: all its output, with
// its goroutines at the end.
func (r *relay) dump() {
	r.t.Helper()
	select {
	case <-r.done:
		return
	default:
	}
	if !r.t.Failed() || r.cmd.Process.Signal(syscall.SIGQUIT) != nil {
		return
	}
	select {
	case <-r.done:
	case <-time.After(patience):
		return
	}
	kept, err := os.CreateTemp("", "outrider-output-*.log")
	if err != nil {
		r.t.Log(err)
		return
	}
	_, err = kept.WriteString(r.output())
	r.t.Logf("the relay's whole output, with its goroutines, is in %s (%v)", kept.Name(), errors.Join(err, kept.Close()))
}

// kill ends the process with SIGKILL and returns when it is gone.
func (r *relay) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.done
}

// stop asks the process to end with SIGTERM and fails the test unless it exits
// with status 0. Before it says that it starts, a process knows no signals: it
// would end with this one.
func (r *relay) stop() {
	r.t.Helper()
	r.says("outrider starts")
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Errorf("the relay cannot be stopped: %v: %v", err, r.err)
	}
	if err := r.wait(); err != nil {
		r.t.Errorf("after SIGTERM the relay ended with %v, want status 0", err)
	}
}

// fails waits until the process ends by itself, and fails the test if it does so with status 0.
func (r *relay) fails() {
	r.t.Helper()
	if r.wait() == nil {
		r.t.Error("the relay ended with status 0")
	}
}

// wait returns how the process ended.
func (r *relay) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		r.t.Fatalf("the relay goes on after %v", patience)
		return nil
	}
}

// output returns everything that the process wrote so far.
func (r *relay) output() string {
	r.t.Helper()
	text, err := os.ReadFile(r.log)
	must(r.t, err)
	return string(text)
}

// says waits until the process has written text that matches.
func (r *relay) says(pattern string) {
	r.t.Helper()
	want := regexp.MustCompile(pattern)
	r.until("says "+pattern, func() bool { return want.MatchString(r.output()) })
}

// until waits for a condition while the process runs.
func (r *relay) until(what string, condition func() bool) {
	r.t.Helper()
	until(r.t, what, func() bool {
		select {
		case <-r.done:
			if condition() {
				return true
			}
			r.t.Fatalf("the relay ended before it %s: %v", what, r.err)
		default:
		}
		return condition()
	})
}

// until waits until the condition holds. What takes long is looked for less often: a look is a
// query mostly, and many tests wait at once.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	limit := patience
	if soak(t) > 0 {
		limit = soakPatience
	}
	began := time.Now()
	for !condition() {
		waited := time.Since(began)
		if waited > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(min(max(waited/16, 10*time.Millisecond), 200*time.Millisecond))
	}
}

// outlast calls look again and again for about as long as an outage takes in
// which an address is probed several times.
func outlast(t *testing.T, look func()) {
	t.Helper()
	over := time.Now().Add(2500 * time.Millisecond)
	for time.Now().Before(over) {
		look()
		pause(t.Context(), 50*time.Millisecond)
	}
}

// pause waits for a time that the scenario chooses, such as the moment of a kill.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// admin returns the base URL of the admin server, once the relay is ready.
func (r *relay) admin() string {
	r.t.Helper()
	address := regexp.MustCompile(`msg=ready .*admin=(\S+)`)
	var found []string
	r.until("is ready", func() bool {
		found = address.FindStringSubmatch(r.output())
		return found != nil
	})
	return "http://" + found[1]
}

// command runs another command of the program and returns what it writes.
func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(program(t), args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out)
}

// getAs returns the body of an answer, whatever its status, to the bearer of a token.
func getAs(t *testing.T, url, token string) (body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, resp.Body)
	return b.String(), errors.Join(err, resp.Body.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
