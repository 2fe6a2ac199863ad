package console

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
)

// tailedSource is a source and the insert of so many rows, most of them of one group.
type tailedSource struct {
	source, insert string
	exec           func(sql string) error
	open           func() pgx.Tx // nil: there is one writer at a time
}

func tailedConfig(t *testing.T, source string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test", []byte("admin: {listen: off}\nsources: {app: "+source+"}\ndestinations: {log: {type: log}}\nroutes: {all: {from: app, to: log}}\n"), func(string) (string, bool) { return "", false })
	check(t, err)
	_, err = operate.Init(t.Context(), cfg)
	check(t, err)
	return cfg
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Rows of a backlog are shown by position, however they spread over slots, and rows that become visible later after them, by position as well.
func TestTailShowsRowsInTheOrderOfVisibility(t *testing.T) {
	t.Parallel()
	onPostgres := func(t *testing.T, ddl, source, insert string) *tailedSource {
		url := testenv.Postgres(t)
		conn, err := pgx.Connect(t.Context(), url)
		check(t, err)
		_, err = conn.Exec(t.Context(), ddl)
		check(t, err)
		other, err := pgx.Connect(t.Context(), url)
		check(t, err)
		t.Cleanup(func() {
			check(t, conn.Close(context.Background()))
			check(t, other.Close(context.Background()))
		})
		return &tailedSource{source: fmt.Sprintf(source, url), insert: insert,
			exec: func(sql string) error { _, err := conn.Exec(t.Context(), sql); return err },
			open: func() pgx.Tx { tx, err := other.Begin(t.Context()); check(t, err); return tx }}
	}
	for name, newSource := range map[string]func(t *testing.T) *tailedSource{
		"own table": func(t *testing.T) *tailedSource {
			return onPostgres(t, "", "{type: postgres, url: %q}",
				`INSERT INTO outrider_outbox (type, message_group, payload) SELECT 'x', CASE WHEN i %% 3 = 0 THEN 'c' || (i %% 50) ELSE 'busy' END, '{}' FROM generate_series(1, %d) i`)
		},
		"log table": func(t *testing.T) *tailedSource {
			return onPostgres(t, `CREATE TABLE events (no bigserial PRIMARY KEY, id text NOT NULL, customer text, payload json NOT NULL, xid xid8 NOT NULL DEFAULT pg_current_xact_id()); CREATE INDEX ON events (xid, no)`,
				"{type: postgres, url: %q, layout: custom, table: events, columns: {position: no, xid: xid, id: id, group: customer, type: '=e', payload: payload}}",
				`INSERT INTO events (id, customer, payload) SELECT i, CASE WHEN i %% 3 = 0 THEN 'c' || (i %% 50) ELSE 'busy' END, '{}' FROM generate_series(1, %d) i`)
		},
		"SQLite": func(t *testing.T) *tailedSource {
			path := filepath.Join(t.TempDir(), "app.db")
			db, err := sqlite.Open(path)
			check(t, err)
			t.Cleanup(func() { check(t, db.Close()) })
			return &tailedSource{source: fmt.Sprintf("{type: sqlite, path: %q}", path), exec: func(sql string) error { _, err := db.ExecContext(t.Context(), sql); return err },
				insert: `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
					INSERT INTO outrider_outbox (type, message_group, payload) SELECT 'x', CASE WHEN i %% 3 = 0 THEN 'c' || (i %% 50) ELSE 'busy' END, '{}' FROM n`}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t)
			cfg := tailedConfig(t, s.source)
			const backlog, late, after = 3000, 40, 500
			check(t, s.exec(fmt.Sprintf(s.insert, backlog/2)))
			var tx pgx.Tx
			waiting := 0
			if s.open != nil { // rows below others that are visible before them
				tx, waiting = s.open(), late
				_, err := tx.Exec(t.Context(), fmt.Sprintf(s.insert, late))
				check(t, err)
			}
			check(t, s.exec(fmt.Sprintf(s.insert, backlog/2)))
			var positions []int64
			commit := func() error {
				if tx != nil {
					check(t, tx.Commit(t.Context()))
				}
				return s.exec(fmt.Sprintf(s.insert, after))
			}
			check(t, Tail(t.Context(), cfg, "app", TailOptions{From: operate.Target{Start: adapters.Start{Kind: adapters.StartBeginning}}, Max: backlog + waiting + after}, func(row *adapters.Row) error {
				positions = append(positions, row.Position)
				if len(positions) == backlog {
					return commit()
				}
				return nil
			}))
			first, rest := positions[:backlog], positions[backlog:]
			if !slices.IsSorted(first) || !slices.IsSorted(rest) {
				t.Errorf("rows were shown out of order: of the backlog %v, of the rest %v", slices.IsSorted(first), slices.IsSorted(rest))
			}
			all := slices.Clone(positions)
			slices.Sort(all)
			if all = slices.Compact(all); len(all) != backlog+waiting+after {
				t.Errorf("%d rows were shown, of which %d are different, want %d", len(positions), len(all), backlog+waiting+after)
			}
			if waiting > 0 && rest[0] > first[backlog-1] {
				t.Error("the late rows did not come first of those that became visible later")
			}
		})
	}
}

// The rows that are read ahead have a bound in bytes.
func TestG7_TailHoldsFewBytes(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	tailedConfig(t, fmt.Sprintf("{type: postgres, url: %q}", url))
	conn, err := pgx.Connect(t.Context(), url)
	check(t, err)
	t.Cleanup(func() { check(t, conn.Close(context.Background())) })
	const rows, size = 120, 256 << 10
	_, err = conn.Exec(t.Context(), fmt.Sprintf(`INSERT INTO outrider_outbox (type, message_group, payload_bytes)
		SELECT 'x', 'g' || i, convert_to(repeat('x', %d), 'UTF8') FROM generate_series(1, %d) i`, size, rows))
	check(t, err)
	src, err := owntable.New(t.Context(), owntable.Config{URL: url})
	check(t, err)
	t.Cleanup(func() { check(t, src.Close()) })
	begin, err := src.Start(t.Context(), adapters.Start{Kind: adapters.StartBeginning})
	check(t, err)
	end, err := src.Start(t.Context(), adapters.Start{Kind: adapters.StartEnd})
	check(t, err)
	m, shown, most, last := newMerge(src, begin, end), 0, 0, int64(0)
	for !m.over() {
		check(t, m.fill(t.Context()))
		most = max(most, m.bytes)
		for row := m.next(); row != nil; row = m.next() {
			if row.Position <= last {
				t.Fatalf("position %d came after %d", row.Position, last)
			}
			last = row.Position
			shown++
		}
	}
	if shown != rows || most > tailBytes+adapters.Slots*(size+1000) || m.bytes != 0 {
		t.Errorf("%d rows were shown, %d bytes were held at once, and %d at the end", shown, most, m.bytes)
	}
}
