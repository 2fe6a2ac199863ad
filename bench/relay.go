package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"

	"github.com/jackc/pgx/v5"
)

// relayArg as the first argument makes a process a relay: see [process].
const relayArg = "-relay-of-bench"

// notice is a line that a relay prints: one when it is warm, if its peer is
// [warming], and one before it ends.
type notice struct {
	Warm      bool          `json:"warm"`
	CPU       time.Duration `json:"cpu"`        // used until it was warm, 0 in the last notice
	PeakBytes int64         `json:"peak_bytes"` // largest resident memory; 0: the system does not tell
}

// relayMain reads a job from in and relays until in ends, so that a relay always
// ends with the harness.
func relayMain(in io.Reader, out, errs io.Writer) int {
	if err := relayUntilEOF(in, out); err != nil {
		fmt.Fprintln(errs, err)
		return exitFailure
	}
	return 0
}

func relayUntilEOF(in io.Reader, out io.Writer) error {
	var j measure.Job
	dec := json.NewDecoder(in)
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	sc := scenarioNamed(j.Scenario)
	if sc == nil || sc.peerNamed(j.Peer) == nil {
		return fmt.Errorf("unknown peer %q of scenario %q", j.Peer, j.Scenario)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if j.Create {
		return createTables(ctx, sc.peerNamed(j.Peer), j.Postgres)
	}
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // any end is the end
	}()
	stop, err := profile(j.Profile)
	if err != nil {
		return err
	}
	notices := json.NewEncoder(out)
	peak, err := relayPeer(ctx, sc.peerNamed(j.Peer), j, notices)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	if ctx.Err() == nil {
		return fmt.Errorf("peer %s stopped on its own", j.Peer)
	}
	return notices.Encode(notice{PeakBytes: peak})
}

// createTables makes and fills the peer's tables.
func createTables(ctx context.Context, p peers.Peer, postgres string) error {
	db, err := pgx.Connect(ctx, postgres)
	if err != nil {
		return err
	}
	return errors.Join(p.Create(ctx, db), db.Close(ctx))
}

// relayPeer relays until ctx ends and returns the peak of resident memory.
func relayPeer(ctx context.Context, p peers.Peer, j measure.Job, notices *json.Encoder) (peak int64, err error) {
	if w, ok := p.(warming); ok {
		return w.WarmRelay(ctx, j, func(pid int) error {
			return notices.Encode(notice{Warm: true, CPU: measure.CPUTime(os.Getpid()) + measure.CPUTime(pid)})
		})
	}
	err = p.Relay(ctx, j)
	return measure.PeakMemory(os.Getpid()), err
}

// profile writes a CPU profile to the file until stop is called.
func profile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// warming is a peer that runs another program, which starts slowly and is slow at
// first, such as a program on a JVM.
type warming interface {
	// Warms reports whether the peer's clock starts when the program is warm. If not,
	// it starts with the process, like that of other peers.
	Warms() bool

	// WarmRelay is Relay. A peer that warms calls warm once, with the id of the
	// program's process, after the messages that do not count. WarmRelay returns the
	// program's peak of resident memory in bytes, 0 if unknown.
	WarmRelay(ctx context.Context, j measure.Job, warm func(pid int) error) (peak int64, err error)
}

// warms reports whether a peer's clock starts when it is warm.
func warms(p peers.Peer) bool {
	w, ok := p.(warming)
	return ok && w.Warms()
}
