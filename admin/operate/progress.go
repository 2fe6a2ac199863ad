package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Progress returns the rows that show how far routes with progress are, and what is known of the routes, in the order of the
// configuration.
func (op *Operator) Progress(ctx context.Context) ([]adapters.Progress, error) {
	var out []adapters.Progress
	for _, s := range op.build.KeepProgress(op.parts, op.build.Options.Instance) {
		if err := s.CheckProgress(ctx); err != nil {
			return nil, err
		}
		rows, err := s.Progress(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// ProgressJob carries out what others write into rows of tables of progress: another status pauses, resumes or resets the
// route, another position moves it. It reads all rows of a state store at once.
type ProgressJob struct {
	op       *Operator
	instance string
	notice   func(adapters.StateStore)
	log      *slog.Logger
	stores   []adapters.ProgressStore
	routes   map[string]bool // that have a row

	mu      sync.Mutex        // held while rows are compared and carried out
	failing map[string]string // what was logged last, by what it is about
}

const (
	// progressPause is how often rows are read: a route that is to be paused stops within a second.
	progressPause = 500 * time.Millisecond

	// progressAlive is how often the time is written into rows that do not change otherwise.
	progressAlive = 10 * time.Second

	// progressPatience bounds one comparison.
	progressPatience = 10 * time.Second

	// progressAuthor is the author of pauses that a row asks for, as package statestore knows it.
	progressAuthor = "progress table"
)

// NewProgressJob makes the job of a relay; nil: no route has progress. Notice has the relay notice what was written into a
// state store.
func NewProgressJob(b *assembly.Builder, p *assembly.Parts, instance string, notice func(adapters.StateStore)) *ProgressJob {
	stores := b.KeepProgress(p, instance)
	if len(stores) == 0 {
		return nil
	}
	j := &ProgressJob{op: &Operator{build: b, parts: p}, instance: instance, notice: notice, log: b.Options.Logger, stores: stores, routes: map[string]bool{}, failing: map[string]string{}}
	for _, r := range b.Config.Routes {
		j.routes[r.Name] = r.Progress != nil
	}
	return j
}

// Before is for the router.Config of the same name: what others wrote while no instance of ours worked the routes is carried out first.
func (j *ProgressJob) Before(ctx context.Context, state adapters.StateStore, routes []string) (refused map[string]error) {
	s, ok := state.(adapters.ProgressStore)
	routes = slices.DeleteFunc(slices.Clone(routes), func(name string) bool { return !j.routes[name] })
	if !ok || len(routes) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	rows, err := registered(ctx, s, routes)
	refused = map[string]error{}
	for _, name := range routes {
		if refused[name] = err; err == nil {
			refused[name] = fmt.Errorf("route %q: its row in the table of progress was removed just now", name)
		}
	}
	positions := map[string]int64{}
	for i := range rows {
		refused[rows[i].Route] = j.follow(ctx, s, &rows[i], true, positions)
	}
	if err := s.AgreePositions(ctx, positions); err != nil {
		for name := range positions {
			refused[name] = err
		}
	}
	return refused
}

// inTurn runs a command that changes a route. What others have written into the route's row is carried out before, a position only if the
// command moves the route, and the row shows afterwards what the command did: so the later of two commands counts, wherever they are given. An
// operator who cannot reach the row is not kept from a command.
func (op *Operator) inTurn(ctx context.Context, state adapters.StateStore, route string, moves bool, command func() error) error {
	j := NewProgressJob(op.build, op.parts, op.build.Options.Instance, func(adapters.StateStore) {})
	s, ok := state.(adapters.ProgressStore)
	if j == nil || !ok || !j.routes[route] {
		return command()
	}
	follow := func() error {
		rows, err := s.Progress(ctx, route)
		if err == nil && len(rows) > 0 {
			err = j.follow(ctx, s, &rows[0], moves, map[string]int64{})
		}
		return err
	}
	missed := s.CheckProgress(ctx)
	if missed == nil && follow() != nil { // perhaps a relay has carried it out at the same time
		missed = follow()
	}
	err := command()
	if err == nil && missed == nil {
		missed = s.WriteProgress(ctx, []string{route}, false)
	}
	if missed != nil {
		j.log.Warn("the command and the row in the table of progress may contradict each other; look at the route in a second", "route", route, "error", missed)
	}
	return err
}

// Run reads the rows until ctx ends.
func (j *ProgressJob) Run(ctx context.Context) {
	tick := time.NewTicker(progressPause)
	defer tick.Stop()
	alive := time.Now()
	for {
		written := time.Since(alive) >= progressAlive
		if written {
			alive = time.Now()
		}
		for i, s := range j.stores {
			limited, cancel := context.WithTimeout(ctx, progressPatience)
			err := j.compare(limited, s, written)
			cancel()
			if ctx.Err() == nil {
				j.report(fmt.Sprint("store ", i), "", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// compare compares the rows of a store with what is known of the routes, and carries out the differences.
func (j *ProgressJob) compare(ctx context.Context, s adapters.ProgressStore, alive bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	rows, err := s.FollowProgress(ctx)
	if err != nil {
		return err
	}
	var stale []string
	positions, seen := map[string]int64{}, map[string]bool{}
	for i := range rows {
		p := &rows[i]
		seen["route "+p.Route] = true
		j.report("route "+p.Route, p.Route, j.follow(ctx, s, p, p.Owner == j.instance, positions))
		if !p.Ordered() && p.Own != p.Status {
			stale = append(stale, p.Route)
		}
	}
	for of := range j.failing { // of a row that is as it should be nothing fails
		if strings.HasPrefix(of, "route ") && !seen[of] {
			delete(j.failing, of)
		}
	}
	return errors.Join(s.AgreePositions(ctx, positions), s.WriteProgress(ctx, stale, alive))
}

// registered returns the rows of routes, which are inserted where they do not exist.
func registered(ctx context.Context, s adapters.ProgressStore, routes []string) ([]adapters.Progress, error) {
	rows, err := s.Progress(ctx, routes...)
	if err != nil || len(rows) == len(routes) {
		return rows, err
	}
	if err := s.RegisterProgress(ctx); err != nil {
		return nil, err
	}
	return s.Progress(ctx, routes...)
}

// follow carries out what others have written of a row. A position is carried out by the instance that works the route, or is
// about to: where the source system works it, its position moves on by itself. What needs no more than to be noted is added to positions.
func (j *ProgressJob) follow(ctx context.Context, s adapters.ProgressStore, p *adapters.Progress, ours bool, positions map[string]int64) error {
	if p.Ordered() {
		if err := j.order(ctx, s, p); err != nil {
			return err
		}
	}
	switch {
	case !ours:
		return nil
	case p.Agreed < 0 && (p.Placed || p.Position == 0): // the route's own cursor, or its start, goes before the row
		positions[p.Route] = p.Position
	case p.Agreed < 0 || p.Moved():
		return j.move(ctx, s, p)
	}
	return nil
}

// order carries out a status.
func (j *ProgressJob) order(ctx context.Context, s adapters.ProgressStore, p *adapters.Progress) error {
	err := s.AgreeStatus(ctx, p.Route, p.Status)
	if err == nil {
		j.log.Info("the table of progress orders another status", "route", p.Route, "topic", p.Topic, "publisher", p.Publisher, "from", p.AgreedStatus, "to", p.Status)
		j.notice(s)
	}
	return err
}

// move moves a route to the position of its row.
func (j *ProgressJob) move(ctx context.Context, s adapters.ProgressStore, p *adapters.Progress) error {
	next := max(min(p.Position, math.MaxInt64-1), 0) + 1 // any number can be written into the row
	plan, err := j.op.PlanSeek(ctx, p.Route, Target{Position: next})
	if errors.Is(err, errFuture) {
		j.log.Warn("the table of progress names a position that the source has not reached; the route continues at the end", "route", p.Route, "position", p.Position)
		plan, err = j.op.PlanSeek(ctx, p.Route, Target{Start: adapters.Start{Kind: adapters.StartEnd}})
	}
	if err != nil {
		return err
	}
	plan.move.By = progressAuthor
	moved, err := s.MoveProgress(ctx, plan.move, p.Position)
	if err == nil && !moved {
		return fmt.Errorf("route %q: its row in the table of progress was changed just now", p.Route)
	}
	if err == nil {
		j.log.Info("the table of progress names another position: the route continues there", "route", p.Route, "topic", p.Topic, "publisher", p.Publisher,
			"was", p.Agreed, "position", p.Position)
		j.notice(s)
	}
	return err
}

// report logs what keeps a row, or all of a store, from being followed, once. An empty route is all of a store's; of names what it is about.
func (j *ProgressJob) report(of, route string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if j.failing[of] == text {
		return
	}
	j.failing[of] = text
	if err != nil {
		j.log.Warn("cannot carry out what the table of progress says, trying again", "route", route, "error", err)
	}
}

// CheckProgress reports why rows that show how far routes are cannot be kept.
func (op *Operator) CheckProgress(ctx context.Context) error {
	for _, s := range op.build.KeepProgress(op.parts, op.build.Options.Instance) {
		if err := s.CheckProgress(ctx); err != nil {
			return err
		}
	}
	return nil
}
