package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grace limits how long an interrupted command takes to end.
const grace = 30 * time.Second

// runCommand runs the command and returns its exit status. The command gets a
// process group of its own, to which signals are passed on: so each of its
// processes gets a Ctrl-C once, and none outlives the run. It reads nothing.
func runCommand(args []string, signals <-chan syscall.Signal) int {
	//nolint:noctx // it is ended by signals to its group, not by a context
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		say("%v", err)
		return exitFailure
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()

	var overdue <-chan time.Time
	for {
		select {
		case err := <-done:
			return exitStatus(err)
		case sig := <-signals:
			if overdue != nil { // the second signal: at once
				signalGroup(cmd, syscall.SIGKILL)
				continue
			}
			say("%v: passed on, stopping", sig)
			signalGroup(cmd, sig)
			overdue = time.After(grace)
		case <-overdue:
			say("the command goes on %v after the signal: killing it", grace)
			signalGroup(cmd, syscall.SIGKILL)
		}
	}
}

// signalGroup signals all processes of the command.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) {
	if err := syscall.Kill(-cmd.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		say("signal the command: %v", err)
	}
}

// exitStatus returns what a shell would report.
func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		say("%v", err)
		return exitFailure
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return exit.ExitCode()
}
