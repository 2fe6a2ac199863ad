package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// supervisor tells systemd what the process does, if a unit with Type=notify started it (deploy/systemd/outrider.service). Otherwise it does nothing.
type supervisor struct{ log *slog.Logger }

// tell sends a state of sd_notify(3) and a text for `systemctl status`.
func (s supervisor) tell(state, status string) {
	if status != "" {
		status, _, _ = strings.Cut(status, "\n")
		state = strings.TrimPrefix(state+"\nSTATUS="+status, "\n")
	}
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("cannot report the state of this process to systemd: check NotifyAccess of the unit", "error", err)
	}
}

func (s supervisor) ready(routes int) {
	s.tell(daemon.SdNotifyReady, "delivering "+counted(routes, "route"))
}

func (s supervisor) stopping() {
	s.tell(daemon.SdNotifyStopping, "draining: finishing messages in flight")
}

// reloading starts a reload; [supervisor.ready] or refused ends it, since systemd waits for READY=1 after either.
func (s supervisor) reloading() {
	s.tell(daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec(), "reloading the configuration")
}

func (s supervisor) refused(err error) {
	s.tell(daemon.SdNotifyReady, fmt.Sprintf("reload failed, the former configuration is in effect: %v", err))
}

// watch pings the watchdog of systemd twice in its limit while alive says so, until ctx ends. Draining counts as alive: drain_timeout bounds it.
func (s supervisor) watch(ctx context.Context, alive func(context.Context) bool) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("the watchdog of systemd is off", "error", err)
	}
	if limit <= 0 {
		return
	}
	pings := time.NewTicker(limit / 2)
	defer pings.Stop()
	for {
		if asked, cancel := context.WithTimeout(ctx, limit/2); alive(asked) {
			s.tell(daemon.SdNotifyWatchdog, "")
			cancel()
		} else if cancel(); ctx.Err() == nil {
			s.log.Error("the main loop of the relay does not answer; systemd restarts this process unless it does", "watchdog", limit.String())
		}
		select {
		case <-pings.C:
		case <-ctx.Done():
			return
		}
	}
}
