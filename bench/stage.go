package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
)

// stage is one entry of a scenario, with a database of its own.
type stage struct {
	entry
	build    build
	scenario *scenario
	payload  int // bytes of a message
	db       *pgx.Conn
	postgres string // URL of the database
	check    *measure.Checker
	written  int // messages, when they are written one by one
	drop     func() error
}

// newStage creates the database and fills it. Close drops it.
func newStage(ctx context.Context, s *measure.Servers, sc *scenario, e entry, of build, o *options) (*stage, error) {
	st := &stage{entry: e, build: of, scenario: sc, payload: o.payload, check: measure.NewChecker()}
	var err error
	if st.postgres, st.drop, err = s.CreateDatabase(ctx); err != nil {
		return nil, err
	}
	if err := st.fill(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", st, err), st.close())
	}
	return st, nil
}

// String names the entry, for progress and errors.
func (st *stage) String() string {
	text := fmt.Sprintf("%s, %d rows", st.peer.Name(), st.rows)
	if st.with != "" {
		text += ", " + st.with
	}
	if st.build.name != "" {
		text += ", build " + st.build.name
	}
	return text
}

func (st *stage) fill(ctx context.Context) (err error) {
	if st.db, err = pgx.Connect(ctx, st.postgres); err != nil {
		return err
	}
	backlog := st.rows
	loader, loads := st.peer.(loading)
	if st.rate > 0 || st.flow != nil { // they are written while the clock runs
		backlog = 0
	}
	events := backlog
	if loads {
		events = 0
	}
	if err := measure.WriteEvents(ctx, st.db, events, st.groups, st.payload); err != nil {
		return err
	}
	if err := st.create(ctx); err != nil {
		return err
	}
	if loads {
		if err := loader.load(ctx, st.db, st.entry, st.payload); err != nil {
			return err
		}
	}
	if err := st.expect(ctx, backlog); err != nil {
		return err
	}
	_, err = st.db.Exec(ctx, "VACUUM (ANALYZE)")
	return err
}

// create makes and fills the peer's tables. The tables of a build are its own: those of another may differ.
func (st *stage) create(ctx context.Context) error {
	if st.build.program == "" {
		return st.peer.Create(ctx, st.db)
	}
	p, err := start(ctx, st.build.program, measure.Job{Create: true, Scenario: st.scenario.name, Peer: st.peer.Name(), Postgres: st.postgres}, nil)
	if err != nil {
		return err
	}
	<-p.done
	if p.err != nil {
		return p.failure()
	}
	return nil
}

// expect gives the rows of the table to the checker.
func (st *stage) expect(ctx context.Context, backlog int) error {
	rows, err := st.db.Query(ctx, st.peer.Backlog())
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		v := rows.RawValues()
		if err := st.check.Expect(v[0], v[1]); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n != backlog {
		return fmt.Errorf("the table has %d rows instead of %d", n, backlog)
	}
	return nil
}

// reset brings the stage to where it was before the first run.
func (st *stage) reset(ctx context.Context) error {
	if err := st.peer.Rewind(ctx, st.db); err != nil {
		return err
	}
	st.check.Reset()
	_, err := st.db.Exec(ctx, "CHECKPOINT")
	return err
}

// examine compares the arrived messages with the table, and checks its statuses.
func (st *stage) examine(ctx context.Context, to measure.Receiver) error {
	if err := to.Examine(ctx, st.check); err != nil {
		return err
	}
	_, unordered := st.peer.(disorderly)
	err := st.check.Err(unordered)
	if v, ok := st.peer.(verifier); ok && err == nil {
		err = v.Verify(ctx, st.db)
	}
	if err != nil {
		return fmt.Errorf("the run does not count: %w", err)
	}
	return nil
}

func (st *stage) close() error {
	if st.db != nil {
		_ = st.db.Close(context.Background()) // the database goes, whatever the connection says
	}
	err := st.drop()
	if c, ok := st.peer.(cleaning); ok {
		ctx, cancel := context.WithTimeout(context.Background(), measure.CleanupLimit)
		defer cancel()
		err = errors.Join(err, c.Clean(ctx, st.postgres))
	}
	return err
}

// loading is a peer that fills its own table, which is faster than through
// [measure.EventTable].
type loading interface {
	load(ctx context.Context, db *pgx.Conn, e entry, size int) error
}

// verifier is a peer whose table has the outcome of each row.
type verifier interface {
	// Verify returns an error unless the table marks every row as delivered.
	Verify(ctx context.Context, db *pgx.Conn) error
}

// cleaning is a peer that has made more than the stage's database.
type cleaning interface {
	// Clean removes it. The argument is the URL of the stage's database.
	Clean(ctx context.Context, postgres string) error
}

// disorderly is a peer that does not keep the order within groups: its runs
// count although messages came out of order.
type disorderly interface{ Disorderly() }
