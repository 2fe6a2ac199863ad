package operate_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

// TestG1_WhateverOperatorsDoNothingIsLost interleaves retention, seek, rebase,
// forget, routes that are renamed, added and removed, pauses, crashes, late commits
// and rollbacks. Every committed row arrives at every route, but those of which a
// seek said that it would skip them; and what a seek says is what happens.
func TestG1_WhateverOperatorsDoNothingIsLost(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rows", "partitions", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := filepath.Join(t.TempDir(), "outbox.db")
			if kind != "sqlite" {
				url = testenv.Postgres(t)
			}
			w := newWorld(t, kind, url)
			rapid.Check(t, func(t *rapid.T) {
				w.begin(t)
				defer w.end()
				t.Repeat(w.actions(t))
				for _, tx := range w.open {
					w.commit(tx)
				}
				w.open = nil
				w.nothingIsOwed()
			})
		})
	}
}

// actions are what the property test chooses from.
func (w *world) actions(*rapid.T) map[string]func(*rapid.T) {
	configured := func(t *rapid.T) string { return rapid.SampledFrom(w.present).Draw(t, "route") }
	return map[string]func(*rapid.T){
		"publish": func(t *rapid.T) { w.publish(rapid.IntRange(1, 40).Draw(t, "rows")) },
		"write": func(t *rapid.T) {
			if w.kind == "sqlite" || len(w.open) == 3 {
				t.Skip()
			}
			w.open = append(w.open, w.write(rapid.IntRange(1, 20).Draw(t, "rows")))
		},
		"commit":   func(t *rapid.T) { w.endOne(t, true) },
		"rollback": func(t *rapid.T) { w.endOne(t, false) },
		"deliver":  func(t *rapid.T) { w.drain(configured(t)) },
		"crash":    func(t *rapid.T) { w.crash(t, configured(t)) },
		"retain":   func(*rapid.T) { w.retain() },
		"seek":     func(t *rapid.T) { w.seek(t, configured(t)) },
		"rebase":   func(t *rapid.T) { w.rebase(t, configured(t)) },
		"pause": func(t *rapid.T) {
			_, err := w.op.Pause(w.ctx, adapters.Pause{Route: configured(t), By: "test"})
			ok(t, err)
		},
		"resume": func(t *rapid.T) {
			_, err := w.op.Resume(w.ctx, adapters.Pause{Route: configured(t), By: "test"})
			ok(t, err)
		},
		"configure": func(t *rapid.T) {
			names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "routes")
			w.configure(names...)
		},
		"forget": func(t *rapid.T) { w.forget(rapid.SampledFrom(slices.Sorted(maps.Keys(w.routes))).Draw(t, "route")) },
		"jump": func(t *rapid.T) { // to another partition
			if w.kind != "partitions" || len(w.open) > 0 {
				t.Skip()
			}
			w.exec("SELECT setval(pg_get_serial_sequence('outrider_outbox', 'position'), nextval(pg_get_serial_sequence('outrider_outbox', 'position')) + 9000)")
		},
	}
}

func (w *world) endOne(t *rapid.T, commit bool) {
	if len(w.open) == 0 {
		t.Skip()
	}
	i := rapid.IntRange(0, len(w.open)-1).Draw(t, "transaction")
	if commit {
		w.commit(w.open[i])
	} else {
		ok(t, w.open[i].tx.Rollback())
	}
	w.open = slices.Delete(w.open, i, i+1)
}

func (w *world) forget(route string) {
	_, err := w.op.Forget(w.ctx, route, true, "test")
	var unknown *operate.UnknownRoute
	if err != nil && !errors.As(err, &unknown) {
		w.t.Fatalf("forget %s: %v", route, err)
	}
	delete(w.routes, route)
	if slices.Contains(w.present, route) {
		w.routes[route] = &owing{owed: w.visible(), settled: map[string]bool{}}
	}
}

// lateRows has a transaction commit below where a route stands.
func (w *world) lateRows(t *rapid.T, route string) {
	if w.kind == "sqlite" || rapid.IntRange(0, 3).Draw(t, "late rows") == 0 {
		return
	}
	late := w.write(rapid.IntRange(1, 20).Draw(t, "late"))
	w.publish(rapid.IntRange(1, 60).Draw(t, "rows"))
	w.drain(route)
	w.commit(late)
}

// seek moves a route somewhere; other things happen before it continues.
func (w *world) seek(t *rapid.T, route string) {
	w.lateRows(t, route)
	place := operate.Target{Start: adapters.Start{Kind: rapid.SampledFrom([]adapters.StartKind{
		adapters.StartBeginning, adapters.StartEnd, adapters.StartTime, "", ""}).Draw(t, "kind")}}
	switch place.Start.Kind {
	case adapters.StartTime:
		place.Start.Time = time.Now().Add(-time.Duration(rapid.IntRange(0, 200).Draw(t, "ago")) * time.Millisecond)
	case adapters.StartBeginning, adapters.StartEnd, adapters.StartOffsets:
	case "":
		last := w.lastPosition()
		place.Position = 1 + max(last-rapid.Int64Range(0, 60).Draw(t, "before the end"), 0)
		if rapid.IntRange(0, 3).Draw(t, "anywhere") == 0 {
			place.Position = rapid.Int64Range(1, last+1).Draw(t, "position")
		}
	}
	plan, err := w.op.PlanSeek(w.ctx, route, place)
	if err != nil && strings.Contains(err.Error(), "is beyond the last one") {
		return // what is drawn is not committed, or was rolled back
	}
	ok(t, err)
	// What has committed late is passed only with others that lie in between.
	if place.Start.Kind != adapters.StartEnd && plan.Late.Rows > 0 && plan.Skipped.Rows == plan.Late.Rows ||
		place.Start.Kind == adapters.StartBeginning && plan.Skipped.Rows > 0 {
		t.Fatalf("a seek to %s skips %d rows, %d of them late", plan.To, plan.Skipped.Rows, plan.Late.Rows)
	}
	w.relocate(route, plan, func() { w.meanwhile(t) })
}

func (w *world) rebase(t *rapid.T, route string) {
	if len(w.open) > 0 {
		t.Skip("it waits for them")
	}
	w.lateRows(t, route)
	plan, err := w.op.PlanRebase(w.ctx, route, true)
	if err != nil {
		t.Skip(err)
	}
	w.relocate(route, plan, func() { w.meanwhile(t) })
}

// meanwhile lets things happen between a move and what the route does next.
func (w *world) meanwhile(t *rapid.T) {
	if len(w.open) > 0 && rapid.Bool().Draw(t, "commit one") {
		w.endOne(t, true)
	}
	if rapid.Bool().Draw(t, "retain") {
		w.retain()
	}
	if rapid.Bool().Draw(t, "publish") {
		w.publish(3)
	}
}
