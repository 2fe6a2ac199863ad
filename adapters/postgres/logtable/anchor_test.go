package logtable

import (
	"cmp"
	"fmt"
	"strconv"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// anchoredLog is a log table of which ten rows were read.
type anchoredLog struct {
	*logEnv
	read          adapters.Cursor // behind all rows
	table, column string          // its position
	sequence      string
}

func newAnchoredLog(t *testing.T, name string, change func(*Config)) *anchoredLog {
	t.Helper()
	e := &anchoredLog{logEnv: newLogEnv(t, name)}
	change(&e.cfg)
	e.log = e.open()
	column := map[string]string{"watermill": "offset", "custom": "No", "debezium": "outrider_position"}[name]
	e.table, e.column = cmp.Or(e.cfg.Table, "watermill_orders"), strconv.Quote(column)
	pgtest.Must(t, e.Pool.QueryRow(e.Ctx, "SELECT pg_get_serial_sequence($1, $2)", e.table, column).Scan(&e.sequence))
	for i := range 10 {
		e.publish(fmt.Sprint("g", i), fmt.Sprint("first ", i))
	}
	l := e.Lanes(e.log, adapters.StartBeginning, 100)
	if n := len(l.All(t)); n != 10 {
		t.Fatalf("read %d rows", n)
	}
	if e.read = l.From[0]; e.read.Position != 10 || e.read.Anchor.IsZero() {
		t.Fatalf("the cursor is %+v", e.read)
	}
	return e
}

// back puts the table back to the state after its fifth row.
func (e *anchoredLog) back() {
	e.T.Helper()
	e.Exec("DELETE FROM " + e.table + " WHERE " + e.column + " > 5")
	e.Exec("SELECT setval($1, 5)", e.sequence)
}

var logConfigs = map[string]func(*Config){
	"as it is": func(*Config) {},
	"undated": func(c *Config) { // a stock table always has it
		c.Columns.CreatedAt = ""
	},
}

// A table without slots that was put back and has caught up is noticed: by another row at
// the cursor's position, and by younger ones before it when the position's new
// transaction was rolled back. Only a seek repositions the cursor.
func TestG1_LogTableThatWentBackAndCaughtUp(t *testing.T) {
	t.Parallel()
	for name := range logTables {
		for how, change := range logConfigs {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				e := newAnchoredLog(t, name, change)
				pgtest.Must(t, e.log.Validate(e.Ctx, e.read))
				e.back()
				for i := range 8 {
					e.publish(fmt.Sprint("g", i), fmt.Sprint("new ", i))
				}
				pgtest.WantError(t, e.log.Validate(e.Ctx, e.read), "another row is at position 10", "outrider seek")

				e.back()
				e.publish("g1", "new")
				e.Exec("SELECT setval($1, 12)", e.sequence) // up to there they were rolled back
				e.publish("g2", "new")
				if err := e.log.Validate(e.Ctx, e.read); e.read.Anchor.Born == 0 {
					pgtest.Must(t, err) // looks as if the row had been deleted
				} else {
					pgtest.WantError(t, err, "position 10", "is not there, though rows before it are", "outrider seek")
				}
			})
		}
	}
}

// Rows of a table of others may be deleted in any order.
func TestLogRowsThatTheUserDeletes(t *testing.T) {
	t.Parallel()
	for name := range logTables {
		for how, change := range logConfigs {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				e := newAnchoredLog(t, name, change)
				for _, which := range []string{"= 10", "IN (3, 8)", "> 4", "> 0"} {
					e.Exec("DELETE FROM " + e.table + " WHERE " + e.column + " " + which)
					if err := e.log.Validate(e.Ctx, e.read); err != nil {
						t.Errorf("without rows %s: %v", which, err)
					}
				}
			})
		}
	}
}

// Which columns a configuration names says nothing of the table's state.
func TestLogAnchorsOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	e := newAnchoredLog(t, "custom", logConfigs["undated"])
	e.cfg.Columns.CreatedAt = "at"
	pgtest.Must(t, e.open().Validate(e.Ctx, e.read))
	e.cfg.Columns.CreatedAt, e.cfg.Columns.Group = "", ""
	pgtest.Must(t, e.open().Validate(e.Ctx, e.read))
}

// A cursor that no row was read for gets the anchor of the row that is there, whatever
// its slot.
func TestLogAnchored(t *testing.T) {
	t.Parallel()
	for name := range logTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newAnchoredLog(t, name, logConfigs["as it is"])
			plain := e.read
			plain.Anchor = adapters.Anchor{}
			got, err := e.log.Anchored(e.Ctx, plain)
			pgtest.Must(t, err)
			if got != e.read {
				t.Errorf("got %+v, want %+v", got, e.read)
			}
			plain.Position = 11
			got, err = e.log.Anchored(e.Ctx, plain)
			pgtest.Must(t, err)
			if got != plain {
				t.Errorf("where no row is: %+v", got)
			}
		})
	}
}

// An application imports rows with dates of its own and removes rows by date. That proves nothing, neither for a route that has read them
// nor for one that began behind them.
func TestLogRowsThatAreRemovedByDate(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "custom")
	e.log = e.open()
	e.Exec(`INSERT INTO "Shop"."Event Log" ("customer""s", body, at) SELECT i % 40, '1', now() - i * interval '1 second' FROM generate_series(1, 200) i`)
	read, end := e.Lanes(e.log, adapters.StartBeginning, 1000), e.Lanes(e.log, adapters.StartEnd, 1000)
	read.All(t)
	for slot := range end.From {
		var err error
		end.From[slot], err = e.log.Anchored(e.Ctx, end.From[slot])
		pgtest.Must(t, err)
	}
	end.All(t)
	late := e.Begin()
	_, err := late.Exec(e.Ctx, `INSERT INTO "Shop"."Event Log" ("customer""s", body, at) VALUES (1, '2', now() + interval '1 hour')`)
	pgtest.Must(t, err)
	e.publish("g1", "3")
	read.All(t)
	end.All(t)
	pgtest.Must(t, late.Commit(e.Ctx))
	read.All(t)
	end.All(t)
	for _, older := range []string{"150 seconds", "100 seconds", "0 seconds"} {
		e.Exec(`DELETE FROM "Shop"."Event Log" WHERE at < clock_timestamp() - interval '` + older + `'`)
		for name, l := range map[string]*pgtest.Lanes{"read": read, "from the end": end} {
			for slot, c := range l.From {
				if err := e.log.Validate(e.Ctx, c); err != nil {
					t.Errorf("%s, slot %d, older than %s removed: %v", name, slot, older, err)
				}
			}
		}
	}
}
