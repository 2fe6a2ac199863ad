package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// errRunning and errStopped say that a server is not in the state that the
// operation needs.
var (
	errRunning = errors.New("the server is running already")
	errStopped = errors.New("the server is not running")
)

// host is the common part of servers: a folder, and a process while they run.
type host struct {
	name string // of the server, for errors
	dir  string // holds data and the log

	mu   sync.Mutex
	proc *process // nil while stopped
}

// newHost makes the folder of a server; parent "": where temporary files are.
func newHost(name, parent, pattern string) (*host, error) {
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", name, err)
	}
	return &host{name: name, dir: dir}, nil
}

// PID returns the id of the server's main process, 0 while it is stopped.
func (h *host) PID() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc == nil {
		return 0
	}
	return h.proc.cmd.Process.Pid
}

// Dir returns the folder of the server's data and log.
func (h *host) Dir() string { return h.dir }

// Kill kills the server with SIGKILL and returns when all its processes are gone, which is when it can be started again.
func (h *host) Kill() error { return h.stop(syscall.SIGKILL) }

// Died reports whether the server has ended by itself.
func (h *host) Died() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc == nil {
		return false
	}
	select {
	case <-h.proc.exited:
		return true
	default:
		return false
	}
}

// start launches the stopped server, and returns when ready has. One that does not become ready is ended by a signal.
func (h *host) start(ctx context.Context, c command, end syscall.Signal, ready func(context.Context, *process) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc != nil {
		return fmt.Errorf("start %s: %w", h.name, errRunning)
	}
	p, err := launch(c)
	if err != nil {
		return err
	}
	if err := ready(ctx, p); err != nil {
		return errors.Join(err, p.end(end))
	}
	h.proc = p
	return nil
}

// answers is for start: the server is ready when ask succeeds.
func (h *host) answers(ask func(context.Context) error) func(context.Context, *process) error {
	return func(ctx context.Context, p *process) error { return awaitReady(ctx, h.name, p, ask) }
}

// stop ends the server by a signal, and returns when all its processes are gone.
func (h *host) stop(sig syscall.Signal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc == nil {
		return fmt.Errorf("stop %s: %w", h.name, errStopped)
	}
	return h.end(sig)
}

// close ends the server if it runs, and deletes its data.
func (h *host) close(sig syscall.Signal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	if h.proc != nil {
		err = h.end(sig)
	}
	return errors.Join(err, os.RemoveAll(h.dir))
}

// end ends the running server. The caller holds mu.
func (h *host) end(sig syscall.Signal) error {
	p := h.proc
	h.proc = nil
	return p.end(sig)
}
