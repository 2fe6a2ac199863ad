package statestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

var _ adapters.ProgressStore = (*Store)(nil)

// progressBook is the rows that a store keeps. It never changes but for behind.
type progressBook struct {
	instance string
	aside    *aside
	asGiven  []adapters.ProgressRow // with the names of tables as they are given
	given    []string               // those names
	rows     []adapters.ProgressRow
	at       map[string]int // by route
	tables   []*progressTable

	mu     sync.Mutex
	behind map[string]bool // routes whose rows were left out by the last settle that concerned them
}

// progressTable is a table of progress with the statements on it.
type progressTable struct {
	name                               string // quoted
	identifier                         pgx.Identifier
	routes, topics, publishers         []string
	write, read, follow, register      string
	writeAside                         string // write, where progress may be aside
	agreePositions, agreeStatus, reset string
}

// KeepProgress implements [adapters.ProgressStore].
func (s *Store) KeepProgress(instance string, rows []adapters.ProgressRow) {
	switch {
	case instance == "" && s.progress.Load() != nil:
		return
	case len(rows) == 0:
		s.progress.Store(nil)
		return
	}
	s.keepProgress(instance, rows)
}

func (s *Store) keepProgress(instance string, rows []adapters.ProgressRow) {
	b := &progressBook{instance: instance, aside: &s.aside, asGiven: rows, rows: slices.Clone(rows), at: map[string]int{}, behind: map[string]bool{}}
	for i := range b.rows {
		r := &b.rows[i]
		if !slices.Contains(b.given, r.Table) {
			b.given = append(b.given, r.Table)
		}
		if place, known := s.places.Load(r.Table); known {
			r.Table, _ = place.(string)
		} else {
			r.Table = pg.NameOf(r.Table).Sanitize()
		}
		b.at[r.Route] = i
		t := b.table(r.Table)
		t.routes, t.topics, t.publishers = append(t.routes, r.Route), append(t.topics, r.Topic), append(t.publishers, r.Publisher)
	}
	s.progress.Store(b)
}

// table returns a table of the book, which is added when it is new.
func (b *progressBook) table(name string) *progressTable {
	for _, t := range b.tables {
		if t.name == name {
			return t
		}
	}
	fill := func(sql, route, cursors string) string {
		return sqltext.Fill(sql, sqltext.Names{"table": name, "route": route, "cursors": cursors})
	}
	in := func(sql, route string) string { return fill(sql, route, "outrider_cursor") }
	t := &progressTable{name: name, identifier: pg.NameOf(name), write: in(writeProgressSQL, "m.route"), read: in(readProgressSQL, "r.route"), follow: in(followProgressSQL, "r.route"),
		writeAside: fill(writeProgressSQL, "m.route", cursorsByKey), register: in(registerProgressSQL, ""), agreePositions: in(agreePositionsSQL, ""), agreeStatus: in(agreeStatusSQL, ""), reset: in(resetProgressSQL, "")}
	b.tables = append(b.tables, t)
	return t
}

// row returns the row of a route, with its table.
func (b *progressBook) row(route string) (*adapters.ProgressRow, *progressTable, error) {
	if b != nil {
		if i, ok := b.at[route]; ok {
			return &b.rows[i], b.table(b.rows[i].Table), nil
		}
	}
	return nil, nil, fmt.Errorf("state store: route %q has no row in a table of progress", route)
}

// progressWrite is the write of a settle into one table of progress.
type progressWrite struct {
	table             *progressTable
	routes, published []string
}

// writes returns the writes that go with settlements; nothing when none concerns a route with a row.
func (b *progressBook) writes(settlements []adapters.Settlement) (out []progressWrite) {
	if b == nil {
		return nil
	}
	for i := range settlements {
		st := &settlements[i]
		at, ok := b.at[st.Route]
		if !ok {
			continue
		}
		t := b.table(b.rows[at].Table)
		n := slices.IndexFunc(out, func(w progressWrite) bool { return w.table == t })
		if n < 0 {
			n, out = len(out), append(out, progressWrite{table: t})
		}
		if w := &out[n]; len(w.routes) == 0 || w.routes[len(w.routes)-1] != st.Route { // settlements are sorted
			w.routes = append(w.routes, st.Route)
		}
		if w := &out[n]; st.Published && (len(w.published) == 0 || w.published[len(w.published)-1] != st.Route) {
			w.published = append(w.published, st.Route)
		}
	}
	return out
}

// queue adds the writes to a batch.
func (b *progressBook) queue(batch *pgx.Batch, writes []progressWrite) {
	aside := b.instance == "" || b.aside.used.Load() // what others have settled is not known
	if aside && len(writes) > 0 {
		batch.Queue(byIndex)
	}
	for _, w := range writes {
		write := w.table.write
		if aside {
			write = w.table.writeAside
		}
		batch.Queue(write, w.routes, w.published, b.instance).Query(func(rows pgx.Rows) error {
			written, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err == nil {
				b.remember(w.routes, written)
			}
			return err
		})
	}
}

// remember keeps the routes whose rows were left out.
func (b *progressBook) remember(routes, written []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, route := range routes {
		if slices.Contains(written, route) {
			delete(b.behind, route)
		} else {
			b.behind[route] = true
		}
	}
}

// left returns the routes whose rows were left out.
func (b *progressBook) left() (routes []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for route := range b.behind {
		routes = append(routes, route)
	}
	return routes
}

// RegisterProgress implements [adapters.ProgressStore].
func (s *Store) RegisterProgress(ctx context.Context) error {
	b := s.progress.Load()
	if b == nil {
		return nil
	}
	for _, t := range b.tables {
		if _, err := s.pool.Exec(ctx, t.register, t.topics, t.publishers); err != nil {
			return stateError("register in the table of progress "+t.name, err)
		}
	}
	return nil
}

// Progress implements [adapters.ProgressStore].
func (s *Store) Progress(ctx context.Context, routes ...string) ([]adapters.Progress, error) {
	b := s.progress.Load()
	if b == nil {
		return nil, nil
	}
	var out []adapters.Progress
	for _, t := range b.tables {
		if of, topics, publishers := t.of(routes); len(of) > 0 {
			found, err := readProgress(ctx, s.pool, t, t.read, of, topics, publishers)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	out = slices.DeleteFunc(out, missing)
	slices.SortStableFunc(out, func(x, y adapters.Progress) int { return b.at[x.Route] - b.at[y.Route] })
	return out, nil
}

// missing reports whether a row does not exist.
func missing(p adapters.Progress) bool { return p.Status == "" }

// readProgress reads rows of a table.
func readProgress(ctx context.Context, q stateQuerier, t *progressTable, sql string, routes, topics, publishers []string) ([]adapters.Progress, error) {
	rows, err := q.Query(ctx, sql, routes, topics, publishers, t.name)
	if err != nil {
		return nil, stateError("read the table of progress "+t.name, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p adapters.Progress, err error) {
		p.Table = t.name
		var published, updated, since, heartbeat *time.Time
		err = row.Scan(&p.Route, &p.Topic, &p.Publisher, &p.Status, &p.Position, &published, &p.Errors, &p.LastError, &updated,
			&p.Leader, &since, &heartbeat, &p.Agreed, &p.AgreedStatus, &p.Own, &p.Placed, &p.Owner)
		p.PublishedAt, p.UpdatedAt, p.LeaderSince, p.Heartbeat = timeOf(published), timeOf(updated), timeOf(since), timeOf(heartbeat)
		return p, err
	})
	return found, stateError("read the table of progress "+t.name, err)
}

// of are the rows of some routes, or all when none is named.
func (t *progressTable) of(routes []string) (of, topics, publishers []string) {
	if len(routes) == 0 {
		return t.routes, t.topics, t.publishers
	}
	named := make(map[string]bool, len(routes))
	for _, route := range routes {
		named[route] = true
	}
	for i, route := range t.routes {
		if named[route] {
			of, topics, publishers = append(of, route), append(topics, t.topics[i]), append(publishers, t.publishers[i])
		}
	}
	return of, topics, publishers
}

// timeOf is a time that may be NULL.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// errRowChanged rolls back what would be carried out for a row that is another one by now.
var errRowChanged = errors.New("its row in the table of progress was changed just now")

// carryOut runs do with the row of a route as it is, in a transaction that keeps settles and other commands of the route away. The row itself
// is not locked: do ends by noting what it has carried out, and returns errRowChanged if the row is not what that was for.
func (s *Store) carryOut(ctx context.Context, route string, do func(tx pgx.Tx, t *progressTable, now *adapters.Progress) error) error {
	r, t, err := s.progress.Load().row(route)
	if err != nil {
		return err
	}
	return pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if err := lockRoute(ctx, stateRows{tx}, route); err != nil {
				return err
			}
			rows, err := readProgress(ctx, tx, t, t.read, []string{route}, []string{r.Topic}, []string{r.Publisher})
			if err != nil {
				return err
			}
			return do(tx, t, &rows[0])
		})
	})
}

// noted is the error of a note that found the row changed.
func noted(done pgconn.CommandTag, err error) error {
	if err == nil && done.RowsAffected() == 0 {
		return errRowChanged
	}
	return err
}

// MoveProgress implements [adapters.ProgressStore].
func (s *Store) MoveProgress(ctx context.Context, m adapters.Move, position int64) (bool, error) {
	err := s.carryOut(ctx, m.Route, func(tx pgx.Tx, t *progressTable, now *adapters.Progress) error {
		if now.Position != position || now.Agreed == position {
			return errRowChanged
		}
		db := s.database()
		if err := db.MoveIn(ctx, stateRows{tx}, m); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, unparkAllSQL, m.Route); err != nil {
			return err
		}
		return noted(tx.Exec(ctx, t.agreePositions, t.name, []string{m.Route}, []string{now.Topic}, []string{now.Publisher}, []int64{position}))
	})
	if errors.Is(err, errRowChanged) {
		return false, nil
	}
	return err == nil, stateError(fmt.Sprintf("move the cursors of route %q", m.Route), err)
}

// WriteProgress implements [adapters.ProgressStore].
func (s *Store) WriteProgress(ctx context.Context, routes []string, alive bool) error {
	b := s.progress.Load()
	if b == nil {
		return nil
	}
	routes = append(b.left(), routes...)
	if alive {
		all := make([]string, len(b.rows))
		for i := range b.rows {
			all[i] = b.rows[i].Route
		}
		rows, err := s.pool.Query(ctx, ownedRoutesSQL, b.instance, all)
		if err != nil {
			return stateError("look for the lanes of routes with progress", err)
		}
		owned, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return stateError("look for the lanes of routes with progress", err)
		}
		routes = append(routes, owned...)
	}
	slices.Sort(routes)
	settlements := make([]adapters.Settlement, 0, len(routes))
	for _, route := range slices.Compact(routes) {
		settlements = append(settlements, adapters.Settlement{LaneRef: adapters.LaneRef{Route: route}})
	}
	writes := b.writes(settlements)
	if len(writes) == 0 {
		return nil
	}
	return stateError("write progress", pg.RetryDeadlock(func() error {
		batch := &pgx.Batch{}
		b.queue(batch, writes)
		return s.pool.SendBatch(ctx, batch).Close()
	}))
}
