package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// stopLimit is how long a relay may take to stop.
const stopLimit = time.Minute

// process is a relay in a process of its own: this program again, with
// [relayArg]. It gets its job on its standard input, because others can read a
// command line, and stops when that is closed.
type process struct {
	peer  string
	stdin io.WriteCloser
	cmd   *exec.Cmd
	out   bytes.Buffer
	errs  tail
	done  chan struct{}
	err   error // once done is closed
}

// usage is what a process used in its whole life.
type usage struct {
	cpu  time.Duration // user and system
	peak int64         // bytes resident
}

// start runs a relay, on the given processors only. It is killed when ctx ends.
func start(ctx context.Context, j job, cpus []int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{peer: j.Peer, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, self, relayArg) //nolint:gosec // this program itself
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	if len(cpus) > 0 {
		p.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", len(cpus)))
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, json.NewEncoder(p.stdin).Encode(j)
}

// failure says why a process that is done ended.
func (p *process) failure() error {
	return fmt.Errorf("the process of %s ended (%v); its last words: %s", p.peer, p.cmd.ProcessState, p.errs.String())
}

// stop lets the relay stop cleanly and returns what it used.
func (p *process) stop() (usage, error) {
	late := time.AfterFunc(stopLimit, p.kill)
	defer late.Stop()
	_ = p.stdin.Close() // fails when the process is gone, which its status tells better
	<-p.done
	if p.err != nil {
		return usage{}, p.failure()
	}
	var f farewell
	if err := json.Unmarshal(p.out.Bytes(), &f); err != nil {
		return usage{}, errors.Join(p.failure(), err)
	}
	state := p.cmd.ProcessState
	return usage{cpu: state.UserTime() + state.SystemTime(), peak: f.PeakBytes}, nil
}

// kill ends the process, whatever it does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails when it is gone
	<-p.done
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// tailBytes are enough for the last error.
const tailBytes = 4 << 10

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if extra := len(t.kept) - tailBytes; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(b), nil
}

// String returns what was kept, once the writer has ended.
func (t *tail) String() string {
	if len(t.kept) == 0 {
		return "(none)"
	}
	return strings.TrimSpace(string(t.kept))
}
