package system_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// A file is the same one however its path is written: for init, publish, the relay
// with its state store and lock, operators' commands and doctor.
func TestASQLiteFileIsTheSameHoweverItIsNamed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a folder #1")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "50% ä?.db")
	encoded := (&url.URL{Path: path}).EscapedPath()
	names := []string{path, "file:" + encoded, "file://" + encoded + "?cache=private", "file://localhost" + encoded + "#fragment",
		filepath.Join(dir, "..", "a folder #1", "50% ä?.db"), "/" + path}
	for i, name := range names {
		cfg := configured(t, "sources: {app: {type: sqlite, path: %q}, again: {type: sqlite, path: %q}}\n"+
			"routes: {orders: {from: app, to: bus, middleware: []}, others: {from: again, to: bus, middleware: []}}",
			name, names[(i+1)%len(names)])
		bus := newCollector()
		r := begin(t, cfg, bus)
		payload := strconv.Itoa(i)
		m, err := outbox.New("t").JSON(i).Build()
		must(t, err)
		must(t, operate.Publish(t.Context(), cfg, "app", m))
		bus.awaits(t, []string{payload})
		r.stop(t)
		asOperator(t, cfg, func(op *operate.Operator) {
			_, err := op.Lag(t.Context(), "orders")
			must(t, err)
		})
		for _, d := range doctor.Doctor(t.Context(), cfg, outrider.WithDestination("bus", newCollector())) {
			if d.Level == adapters.LevelBroken {
				t.Errorf("%s: doctor says %s %s: %s", name, d.Part, d.Subject, d.Text)
			}
		}
	}
	var files []string
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".db" || filepath.Ext(e.Name()) == ".outrider-lock" || filepath.Ext(e.Name()) == "" {
			files = append(files, e.Name())
		}
	}
	if want := []string{"50% ä?.db", "50% ä?.db.outrider-lock"}; !slices.Equal(files, want) {
		t.Errorf("the folder holds %q, want %q", files, want)
	}
}

// ownTable is a table of an application's own, and the configuration that reads it.
const (
	ownTable  = `CREATE TABLE events (no INTEGER PRIMARY KEY AUTOINCREMENT, message_group TEXT, type TEXT, payload TEXT, made TEXT DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')))`
	ownConfig = `state: {url: "sqlite:%s"}
sources: {app: {type: sqlite, path: %q, layout: custom, table: events, columns: {position: no, id: no, payload: payload, type: type, group: message_group%s}}}` + allRoutes
)

// Rows at position 0 and below, which only an application's own statement makes, are
// read by a route that begins at the beginning, also when the table was empty then.
func TestG1_RowsOfACustomSQLiteTableAtZeroAndBelow(t *testing.T) {
	t.Parallel()
	for _, first := range [][]int{{-7, 0, 3}, {0}, {-7}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "app.db")
		db := openSQLite(t, path)
		_, err := db.ExecContext(t.Context(), ownTable)
		must(t, err)
		cfg := configured(t, ownConfig, filepath.Join(dir, "state.db"), path, "")
		insert := func(no int) string {
			_, err := db.ExecContext(t.Context(), "INSERT INTO events (no, type, payload) VALUES (?, 't', ?)", no, strconv.Itoa(no))
			must(t, err)
			return strconv.Itoa(no)
		}
		bus := newCollector()
		var all []string
		for _, no := range first {
			all = append(all, insert(no))
		}
		r := begin(t, cfg, bus)
		bus.awaits(t, all)
		r.stop(t)
		all = append(all, insert(4))
		r = begin(t, cfg, bus)
		bus.awaits(t, all)
		r.stop(t)
		if n := bus.twice(); n > 0 {
			t.Errorf("%v: %d rows came twice", first, n)
		}
		relocate(t, cfg, seekTo(adapters.StartBeginning))
		again := newCollector()
		r = begin(t, cfg, again)
		again.awaits(t, all)
		r.stop(t)
	}
}

// A custom SQLite table that is emptied together with its counter under a running relay
// stops the route, which says what to do: when the new rows are fewer than the old ones
// were, and when they have caught up at once.
func TestG1_ASQLiteTableEmptiedWithItsCounter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, made, says string
		fresh            int
		fix              func(*operate.Operator) (*operate.Relocation, error)
	}{
		{"fewer rows", ", created_at: made", "outrider rebase orders", 10, rebase},
		{"none", ", created_at: made", "outrider rebase orders", 0, rebase},
		{"caught up", ", created_at: made", "outrider rebase orders", 80, rebase},
		{"not dated", "", "outrider seek", 10, seekTo(adapters.StartBeginning)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "app.db")
			db := openSQLite(t, path)
			_, err := db.ExecContext(t.Context(), ownTable)
			must(t, err)
			cfg := configured(t, ownConfig, filepath.Join(dir, "state.db"), path, tt.made)
			bus := newCollector()
			r := begin(t, cfg, bus)
			bus.awaits(t, write(t, db, "events", "old", 50))
			r.stop(t) // the cursors are durable
			r = begin(t, cfg, bus)
			bus.awaits(t, write(t, db, "events", "older", 1))
			tx, err := db.BeginTx(t.Context(), nil)
			must(t, err)
			_, err = tx.ExecContext(t.Context(), `DELETE FROM events; DELETE FROM sqlite_sequence`)
			must(t, err)
			var fresh []string
			for i := range tt.fresh {
				fresh = append(fresh, fmt.Sprintf(`"fresh %d"`, i))
				_, err = tx.ExecContext(t.Context(), `INSERT INTO events (type, payload) VALUES ('t', ?)`, fresh[i])
				must(t, err)
			}
			must(t, tx.Commit())
			r.refuses(t, tt.says)
			relocate(t, cfg, tt.fix)
			r = begin(t, cfg, bus)
			bus.awaits(t, append(fresh, write(t, db, "events", "last", 5)...))
			r.stop(t)
		})
	}
}
