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

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

const (
	// stopLimit is how long a relay may take to stop.
	stopLimit = time.Minute

	// killGrace is how long one may take to remove what it has made, when it is
	// no use any more.
	killGrace = 10 * time.Second
)

// process is a relay in a process of its own: this program again, with
// [relayArg]. It gets its job on its standard input, because others can read a
// command line, and stops when that is closed.
type process struct {
	peer  string
	stdin io.WriteCloser
	cmd   *exec.Cmd
	began time.Time // when its clock started: with the process, or when it was warm
	out   notices
	errs  tail
	done  chan struct{}
	err   error // once done is closed
}

// usage is what a process used in its whole life.
type usage struct {
	cpu  time.Duration // user and system
	peak int64         // bytes resident
}

// start runs a relay, on the given processors only. It is ended when ctx ends.
func start(ctx context.Context, j measure.Job, cpus []int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{peer: j.Peer, out: notices{warm: make(chan struct{})}, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, self, relayArg) //nolint:gosec // this program itself
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	if len(cpus) > 0 {
		p.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", len(cpus)))
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.Cancel, p.cmd.WaitDelay = p.stdin.Close, killGrace
	p.began = time.Now()
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
	_ = p.stdin.Close() // fails when the process is gone, which its status shows better
	<-p.done
	if p.err != nil {
		return usage{}, p.failure()
	}
	if len(p.out.said) == 0 {
		return usage{}, p.failure()
	}
	first, last, state := p.out.said[0], p.out.said[len(p.out.said)-1], p.cmd.ProcessState
	// The usage of its own processes is in it, since it has waited for them.
	return usage{cpu: state.UserTime() + state.SystemTime() - first.CPU, peak: last.PeakBytes}, nil
}

// awaitWarm returns when the relay has said that it is warm; its clock starts
// then.
func (p *process) awaitWarm(ctx context.Context) error {
	limit := time.NewTimer(peers.WarmLimit)
	defer limit.Stop()
	select {
	case <-p.out.warm:
		p.began = time.Now()
		return nil
	case <-p.done:
		return errors.New("it was not warm yet")
	case <-limit.C:
		return fmt.Errorf("%s is not warm after %v", p.peer, peers.WarmLimit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill ends the process, whatever it does.
func (p *process) kill() {
	_ = p.stdin.Close() // fails when it is closed or the process is gone
	late := time.AfterFunc(killGrace, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	<-p.done
}

// notices reads what a relay prints.
type notices struct {
	line []byte // begun
	said []notice
	warm chan struct{} // closed when it has said so
}

// Write never fails: what is no notice is left out.
func (n *notices) Write(b []byte) (int, error) {
	n.line = append(n.line, b...)
	for {
		line, rest, whole := bytes.Cut(n.line, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		n.line = rest
		var said notice
		if json.Unmarshal(line, &said) != nil {
			continue
		}
		if said.Warm && len(n.said) == 0 {
			close(n.warm)
		}
		n.said = append(n.said, said)
	}
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
