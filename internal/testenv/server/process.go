package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// patience limits how long a server takes to end after the signal.
const patience = 60 * time.Second

// command describes a server process to start.
type command struct {
	path string
	args []string
	dir  string   // working folder
	env  []string // complete environment
	log  string   // file that standard output and error are appended to

	// credential is the user to run as; nil: as we are.
	credential *syscall.Credential

	// orphanSignal is sent to the server when our process dies without having
	// stopped it, where the system can do that (Linux). Zero: the server lives on.
	orphanSignal syscall.Signal
}

// process is a started server.
type process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{} // closed when the process itself has ended
	gone   chan struct{} // closed when its children have ended as well
}

// launch starts the command in a session of its own, so that a Ctrl-C in the
// terminal reaches the server only through us.
func launch(c command) (*process, error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the server's log: %w", err)
	}
	// The child holds a copy of log.
	defer func() { _ = log.Close() }()

	//nolint:noctx // a server lives until it is stopped, not until the context of its start ends
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = sysProcAttr(c)

	p := &process{cmd: cmd, log: c.log, exited: make(chan struct{}), gone: make(chan struct{})}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.path, err)
	}
	return p, nil
}

// start runs the command and watches it. Every process of the server inherits
// the write end of a pipe on which nothing is ever written: its end of file
// says that the last of them is gone, which is when a killed PostgreSQL can be
// started again.
func (p *process) start() error {
	alive, inherited, err := os.Pipe()
	if err != nil {
		return err
	}
	p.cmd.ExtraFiles = []*os.File{inherited}

	started := make(chan error)
	go func() {
		// The orphan signal comes when the thread that started the server
		// ends, so that thread must live for as long as the server does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = alive.Close() }()

		err := p.cmd.Start()
		_ = inherited.Close()
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.exited)
		_, _ = io.Copy(io.Discard, alive)
		close(p.gone)
	}()
	return <-started
}

// end sends the signal and waits until the server and its children are gone.
func (p *process) end(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.cmd.Process.Pid, err)
	}
	select {
	case <-p.gone:
		return nil
	case <-time.After(patience):
	}
	_ = p.cmd.Process.Kill()
	return fmt.Errorf("process %d or a child of it had not ended %v after signal %q, killed it; its log ends:\n%s",
		p.cmd.Process.Pid, patience, sig, p.tail())
}

// tail returns the last lines of the server's log, indented.
func (p *process) tail() string {
	const lines = 40
	text, err := os.ReadFile(p.log)
	if err != nil {
		return "  (no log: " + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "  " + strings.Join(all, "\n  ")
}
