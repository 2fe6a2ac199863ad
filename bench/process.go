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
	// stopLimit limits how long a relay takes to stop.
	stopLimit = time.Minute

	// killGrace limits how long a failed relay takes to clean up.
	killGrace = 10 * time.Second
)

// process is a relay in a process of its own: this program, or another build of it, with [relayArg]. It reads
// its job from standard input, because other users can read a command line, and
// stops when standard input is closed.
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

// usage is the processor time and the memory that a process has used.
type usage struct {
	cpu  time.Duration // user and system
	peak int64         // bytes resident
}

// start runs a relay of the program, on the given processors only. Without a program it is this one. It is ended
// when ctx ends.
func start(ctx context.Context, program string, j measure.Job, cpus []int) (*process, error) {
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	p := &process{peer: j.Peer, out: notices{warm: make(chan struct{})}, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program, relayArg) //nolint:gosec // this program itself, or a build of it
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	if len(cpus) > 0 {
		p.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", len(cpus)))
	}
	var err error
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
	// This includes the processes that it has started and waited for.
	return usage{cpu: state.UserTime() + state.SystemTime() - first.CPU, peak: last.PeakBytes}, nil
}

// awaitWarm waits until the relay reports that it is warm, and starts its clock.
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

// kill ends the process, by force after [killGrace].
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
	warm chan struct{} // closed by the notice that it is warm
}

// Write never fails and ignores lines that are no notices.
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

// tailBytes is enough for the last error.
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
