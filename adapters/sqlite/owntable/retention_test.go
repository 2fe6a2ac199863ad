package owntable_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/owntable"
)

var everything = adapters.Retention{Mode: adapters.RetainRows, Batch: 7}

// routeAt is a route that has settled the same cursors as the reader.
func routeAt(name string, from [adapters.Slots]adapters.Cursor) adapters.RouteCursors {
	c := adapters.RouteCursors{Route: name}
	for slot := range from {
		c.Cursors[slot] = &from[slot]
	}
	return c
}

// retain takes steps until nothing more can go.
func retain(t *testing.T, source *owntable.Source, r adapters.Retention, routes ...adapters.RouteCursors) adapters.Retained {
	t.Helper()
	rows := int64(0)
	for {
		step, err := source.Retain(t.Context(), r, routes)
		if err != nil {
			t.Fatal(err)
		}
		rows += step.Rows
		if step.Rows = rows; !step.More {
			return step
		}
	}
}

// left returns the positions that are in the table.
func left(t *testing.T, db *sql.DB) (positions []int64) {
	t.Helper()
	rows, err := db.Query(`SELECT position FROM outrider_outbox ORDER BY position`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var p int64
		if err := rows.Scan(&p); err != nil {
			t.Fatal(err)
		}
		positions = append(positions, p)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return positions
}

// TestG1_RetentionAgainstTheModel compares what goes with what the cursors say.
func TestG1_RetentionAgainstTheModel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	path := filepath.Join(t.TempDir(), "o.db")
	db := openApp(t, path)
	for round := range 8 {
		if _, err := db.Exec(`DELETE FROM outrider_outbox; DELETE FROM sqlite_sequence`); err != nil {
			t.Fatal(err)
		}
		rows := make([]adapters.Row, 100)
		for i := range rows {
			rows[i] = adapters.Row{ID: strconv.Itoa(i), Type: "t", Payload: []byte("1"), Group: []string{"", fmt.Sprint("g", i%30)}[i%2]}
		}
		insert(t, db, rows...)
		routes := make([]adapters.RouteCursors, 1+random.IntN(3))
		for i := range routes {
			for slot := range routes[i].Cursors {
				if random.IntN(30) > 0 {
					routes[i].Cursors[slot] = &adapters.Cursor{Position: random.Int64N(101)}
				}
			}
		}
		var want []int64
		for i, row := range rows {
			position := int64(i + 1)
			if slices.ContainsFunc(routes, func(r adapters.RouteCursors) bool {
				c := r.Cursors[adapters.SlotOf(row.Group, row.ID)]
				return c == nil || c.Position < position
			}) {
				want = append(want, position)
			}
		}
		retain(t, openSource(t, path), everything, routes...)
		if got := left(t, db); !slices.Equal(got, want) {
			t.Fatalf("round %d: left are %v, the model says %v", round, got, want)
		}
	}
}

func TestRetentionKeepsYoungRowsAndTellsWhoHoldsBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	for i := range 20 {
		insert(t, db, adapters.Row{ID: strconv.Itoa(i), Type: "t", Group: strconv.Itoa(i), Payload: []byte("1")})
	}
	if _, err := db.Exec(`UPDATE outrider_outbox SET created_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-2 hours') WHERE position <= 12`); err != nil {
		t.Fatal(err)
	}
	_, settled := readAll(t, source, [adapters.Slots]adapters.Cursor{})
	r := everything
	r.Keep = time.Hour
	paused := routeAt("paused", [adapters.Slots]adapters.Cursor{})
	did := retain(t, source, r, routeAt("fast", settled), paused)
	if did.Rows != 0 || len(did.Held) != 1 || did.Held["paused"] < 59*time.Minute || did.Held["paused"] > 2*time.Hour {
		t.Errorf("beside a paused route: %+v", did)
	}
	if did = retain(t, source, r); did.Rows != 0 {
		t.Errorf("without any route %d rows were removed", did.Rows)
	}
	dry := r
	dry.DryRun = true
	if did = retain(t, openSource(t, path), dry, routeAt("fast", settled)); did.Rows != 12 || len(left(t, db)) != 20 {
		t.Errorf("a dry run counts %d rows, want 12, and leaves %v", did.Rows, left(t, db))
	}
	did = retain(t, source, r, routeAt("fast", settled))
	if did.Rows != 12 || did.Held != nil || did.Oldest > time.Hour {
		t.Errorf("for itself: %+v", did)
	}
	if got := left(t, db); len(got) != 8 || got[0] != 13 {
		t.Errorf("left are %v", got)
	}
	r.Keep = 0
	retain(t, source, r, routeAt("fast", settled))
	if err := source.Validate(t.Context(), settled[0]); err != nil || len(left(t, db)) != 0 {
		t.Errorf("of the empty table: %v, left %v", err, left(t, db))
	}
}

// An older copy of the file has rows at positions that were delivered from the
// newer one; they stay, also when it has caught up.
func TestG1_RetentionStopsWhereTheFileIsAnOlderCopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	ahead := routeAt("r", [adapters.Slots]adapters.Cursor{3: {Position: 2}})
	insert(t, db, adapters.Row{ID: "1", Type: "t", Payload: []byte("1")})
	for range 2 {
		if _, err := source.Retain(t.Context(), everything, []adapters.RouteCursors{ahead}); err == nil || !strings.Contains(err.Error(), "outrider rebase r") {
			t.Errorf("got %v", err)
		}
		insert(t, db, adapters.Row{ID: "2", Type: "t", Payload: []byte("1")})
	}
	if _, err := source.Retain(t.Context(), everything, []adapters.RouteCursors{routeAt("r", [adapters.Slots]adapters.Cursor{})}); err != nil {
		t.Errorf("after the route was placed anew: %v", err)
	}
}

func TestCheckRetention(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	if err := source.CheckRetention(t.Context(), everything); err != nil {
		t.Error(err)
	}
	if err := source.CheckRetention(t.Context(), adapters.Retention{Mode: adapters.RetainPartitions}); err == nil || !strings.Contains(err.Error(), "use delete") {
		t.Errorf("got %v", err)
	}
	if os.Getuid() == 0 {
		return // root may write to every file
	}
	_ = db.Close()
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := openSource(t, path).CheckRetention(t.Context(), everything); err == nil || !strings.Contains(err.Error(), "written to") {
		t.Errorf("of a file that can only be read: %v", err)
	}
}

// TestG1_RetentionUnderStress removes as fast as it can beside a writer that rolls
// some of its transactions back and a reader.
func TestG1_RetentionUnderStress(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	const rows = 200
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		for i := range rows {
			insert(t, db, adapters.Row{ID: strconv.Itoa(i), Type: "t", Group: fmt.Sprint("g", i%40), Payload: []byte("1")})
			if i%10 == 0 {
				rollBack(t, db)
			}
		}
	})
	settled, removed := make(chan [adapters.Slots]adapters.Cursor, rows), int64(0)
	all.Go(func() {
		for from := range settled {
			step, err := source.Retain(t.Context(), everything, []adapters.RouteCursors{routeAt("r", from)})
			if err != nil {
				t.Error(err)
				return
			}
			removed += step.Rows
		}
	})
	var from [adapters.Slots]adapters.Cursor
	seen := map[string]bool{}
	for end := time.Now().Add(time.Minute); len(seen) < rows && time.Now().Before(end); {
		var ids []string
		ids, from = readAll(t, source, from)
		for _, id := range ids {
			if seen[id] {
				t.Errorf("row %s came twice", id)
			}
			seen[id] = true
		}
		if len(ids) > 0 {
			settled <- from
		}
	}
	close(settled)
	all.Wait()
	if len(seen) != rows || removed == 0 {
		t.Errorf("%d rows of %d came, %d were removed while they were written", len(seen), rows, removed)
	}
	retain(t, openSource(t, path), everything, routeAt("r", from))
	if got := left(t, db); len(got) != 0 {
		t.Errorf("left are %v", got)
	}
}

func rollBack(t *testing.T, db *sql.DB) {
	tx, err := db.Begin()
	if err == nil {
		_, err = tx.Exec(`INSERT INTO outrider_outbox (id, type, payload) VALUES ('lost', 't', '1')`)
		_ = tx.Rollback()
	}
	if err != nil {
		t.Error(err)
	}
}

// A row that is dated in the future holds nothing back. It goes with the next one
// that is old enough; where there is none, it is told, with a statement that helps.
func TestRetentionGoesOnPastRowsDatedInTheFuture(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	db, source := openApp(t, path), openSource(t, path)
	now := time.Now()
	for i, at := range []time.Time{now.Add(-2 * time.Hour), now.Add(time.Hour), now.AddDate(8000-now.Year(), 0, 0), now.Add(-2 * time.Hour),
		now.Add(time.Hour), now.Add(time.Minute), now} {
		insert(t, db, adapters.Row{ID: strconv.Itoa(i), Type: "t", Payload: []byte("1")})
		if _, err := db.Exec("UPDATE outrider_outbox SET created_at = ? WHERE position = ?", at.UTC().Format(time.RFC3339Nano), i+1); err != nil {
			t.Fatal(err)
		}
	}
	var all [adapters.Slots]adapters.Cursor
	for slot := range all {
		all[slot].Position = 7
	}
	hour := everything
	hour.Keep = time.Hour
	if step := retain(t, source, hour, routeAt("r", all)); step.Rows != 4 || step.DatedAhead.Position != 5 {
		t.Errorf("%+v; want 4 rows removed and the next one told", step)
	} else if _, err := db.Exec(step.DatedAhead.Fix); err != nil {
		t.Error(err)
	}
	if step := retain(t, openSource(t, path), hour, routeAt("r", all)); step.Rows != 0 || step.DatedAhead.By != 0 {
		t.Errorf("after the fix: %+v", step)
	}
	if got := left(t, db); !slices.Equal(got, []int64{5, 6, 7}) {
		t.Errorf("left are %v", got)
	}
}
