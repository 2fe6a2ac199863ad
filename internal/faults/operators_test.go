package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/faults/check"
)

// operators is a run of two relays that are moved, paused, reconfigured and killed
// while retention removes rows.
type operators struct {
	t          *testing.T
	db         *database
	retention  string
	relays     [2]*relay
	partitions bool

	back, skips, named *receiver // of the routes
	name               int       // of the third route, which is renamed
	skipped            int       // rows that seeks said they skip, of the second route
}

func (o *operators) route() string { return "named" + strconv.Itoa(o.name) }

// config has the third route read through another source on the same table. What
// others are is a third source, on another table.
func (o *operators) config() string {
	text := cleaning(o.db, o.retention, map[string]string{"back": o.back.url(), "skips": o.skips.url(), o.route(): o.named.url()})
	of := fmt.Sprintf("{type: postgres, url: %q, poll: {max: 50ms}, retention: {keep: 0s, every: 1s, ", o.db.url)
	text = strings.Replace(text, "sources:\n", "sources:\n  twin: "+of+o.retention+"}}\n  other: "+of+"batch: 160}, table: elsewhere}\n", 1)
	return strings.Replace(text, o.route()+": {from: app", o.route()+": {from: twin", 1)
}

func (o *operators) restart(i int) {
	o.relays[i].kill()
	o.relays[i] = start(o.t, o.config())
}

// TestG1_WhateverOperatorsDoBesideRetention: one route goes back again and again and is
// rebased and paused, and for a while configured with another table; one skips what there is; one reads through
// another source, is renamed, and its former name forgotten; instances are killed; transactions commit late or roll back, and
// retention keeps nothing. Every committed row arrives at the first route and,
// under some name, at the third; and the second lacks no more than it was said to skip.
func TestG1_WhateverOperatorsDoBesideRetention(t *testing.T) {
	t.Parallel()
	for name, retention := range map[string]string{"delete": "batch: 160", "partitions": "mode: partitions, partition_rows: 10000"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &operators{t: t, db: cleaned(t, name == "partitions"), retention: retention, partitions: name == "partitions",
				back: receive(t, nil), skips: receive(t, nil), named: receive(t, nil)}
			o.makeElsewhere()
			w := write(t, o.db.pool, false)
			o.relays = [2]*relay{start(t, o.config()), start(t, o.config())}
			o.relays[0].until("delivered something everywhere", func() bool {
				return o.back.arrived() > 0 && o.skips.arrived() > 0 && o.named.arrived() > 0
			})
			var next []int // each of the steps comes, in an order of chance
			for range rounds(t, steps, 100) {
				if len(next) == 0 {
					next = rand.Perm(steps)
				}
				o.step(next[0])
				next = next[1:]
				pause(t.Context(), rand.N(300*time.Millisecond))
			}
			w.stop()
			o.finish()
		})
	}
}

// steps is how many kinds of steps there are.
const steps = 7

// step does one thing.
func (o *operators) step(kind int) {
	r := o.relays[0]
	switch kind {
	case 0:
		o.seekBack()
	case 1:
		if m := r.move("rebase", "back", "--force"); m.Skipped != 0 {
			o.t.Errorf("a rebase skips %d rows", m.Skipped)
		}
	case 2: // messages committed between the commands are never settled
		command(o.t, "pause", "back", "-c", r.config)
		o.seekBack()
		pause(o.t.Context(), rand.N(time.Second))
		command(o.t, "retention", "--once", "-c", r.config)
		command(o.t, "resume", "back", "-c", r.config)
	case 3:
		o.skipped += r.move("seek", "skips", "--to", "end").Skipped
	case 4:
		o.rename()
	case 5:
		o.elsewhere()
	case 6:
		o.restart(rand.IntN(2))
		if o.partitions {
			o.db.exec(`SELECT setval(s.name, nextval(s.name) + 5000) FROM (SELECT pg_get_serial_sequence('outrider_outbox', 'position')::regclass AS name) s`)
		}
	}
}

// rowsElsewhere is how many rows the other table has.
const rowsElsewhere = 50

// makeElsewhere makes another table, whose positions are far ahead.
func (o *operators) makeElsewhere() {
	_, err := owntable.Init(o.t.Context(), o.db.pool, "elsewhere")
	must(o.t, err)
	o.db.exec("SELECT setval(pg_get_serial_sequence('elsewhere', 'position'), 1000000)")
	o.db.exec(`INSERT INTO elsewhere (id, type, payload, message_group) SELECT 'elsewhere' || i, 't', '{}', 'g' || i FROM generate_series(1, $1) i`, rowsElsewhere)
}

// elsewhere has the first route read another table for a while. It stops, because its
// cursor is not one of that table; whose rows it holds, too, as the route has settled none.
func (o *operators) elsewhere() {
	config := o.config()
	for i, r := range o.relays {
		r.kill()
		o.relays[i] = start(o.t, strings.Replace(config, "back: {from: app", "back: {from: other", 1))
	}
	o.relays[0].until("the route is stopped", func() bool {
		const why = "but it reads"
		return strings.Contains(o.relays[0].output(), why) || strings.Contains(o.relays[1].output(), why)
	})
	command(o.t, "retention", "--once", "-c", o.relays[0].config)
	if n := one[int](o.db, "SELECT count(*) FROM elsewhere"); n != rowsElsewhere {
		o.t.Errorf("%d rows are left in a table of which nothing was delivered, want %d", n, rowsElsewhere)
	}
	o.restart(0)
	o.restart(1)
}

// seekBack moves the first route to a place that all of its lanes have passed.
func (o *operators) seekBack() {
	lowest := one[int64](o.db, "SELECT coalesce(min(position), 0) FROM outrider_cursor WHERE route = 'back' AND updated_at IS NOT NULL")
	to := "beginning"
	if lowest > 0 && rand.IntN(4) > 0 {
		to = strconv.FormatInt(1+max(lowest-rand.Int64N(100), 0), 10)
	}
	if m := o.relays[0].move("seek", "back", "--to", to); m.Skipped != 0 {
		o.t.Errorf("a seek back to %s skips %d rows", to, m.Skipped)
	}
}

// rename has the third route continue under another name, which begins at the oldest row.
// The new name is paused before it first runs: it holds all rows all the same.
func (o *operators) rename() {
	former := o.route()
	o.name++
	config := filepath.Join(o.t.TempDir(), "renamed.yaml")
	must(o.t, os.WriteFile(config, []byte(o.config()), 0o600))
	command(o.t, "pause", o.route(), "-c", config)
	o.restart(0)
	o.restart(1)
	command(o.t, "route", "forget", former, "--force", "--yes", "-c", config)
	behind := o.back.arrived()
	o.relays[0].until("another route goes on", func() bool { return o.back.arrived() > behind+50 })
	pause(o.t.Context(), time.Second) // for a settle
	command(o.t, "retention", "--once", "-c", config)
	command(o.t, "resume", o.route(), "-c", config)
}

// finish lets everything arrive and compares it with what was committed.
func (o *operators) finish() {
	t := o.t
	command(t, "resume", "back", "-c", o.relays[0].config)
	o.db.publish("last", 1)
	rows := o.db.history()
	defer func() {
		if t.Failed() {
			t.Logf("of %d rows %d, %d and %d have arrived\n%s", len(rows), o.back.arrived(), o.skips.arrived(), o.named.arrived(), o.relays[0].outrider("status"))
		}
	}()
	o.relays[0].until("delivered everything", func() bool {
		return o.back.arrived() >= len(rows) && o.named.arrived() >= len(rows) && o.skips.arrived() >= len(rows)-o.skipped
	})
	for _, r := range o.relays {
		r.stop()
	}
	for route, to := range map[string]*receiver{"back": o.back, "skips": o.skips, "named": o.named} {
		report := check.Compare(rows, to.all()...)
		t.Logf("%s: %v", route, report)
		missing := 0
		if route == "skips" {
			missing = o.skipped
		}
		if report.Lost > missing || report.Unknown > 0 {
			t.Errorf("%s: want at most %d to be missing: %v", route, missing, report)
		}
	}
	t.Logf("%d rows were skipped, %d are left, the third route had %d names", o.skipped, o.db.retained(), o.name+1)
}
