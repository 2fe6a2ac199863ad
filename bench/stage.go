package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// stage is one peer with a backlog in a database of its own.
type stage struct {
	peer     peer
	rows     int
	db       *pgx.Conn
	postgres string // URL of the database
	check    *checker
	drop     func() error
}

// newStage creates the database and fills it. Close drops it.
func newStage(ctx context.Context, s *servers, e entry, o *options) (*stage, error) {
	st := &stage{peer: e.peer, rows: e.rows, check: newChecker()}
	var err error
	if st.postgres, st.drop, err = s.createDatabase(ctx); err != nil {
		return nil, err
	}
	if err := st.fill(ctx, s, o); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", e.peer.name(), err), st.close())
	}
	return st, nil
}

func (st *stage) fill(ctx context.Context, s *servers, o *options) (err error) {
	if st.db, err = pgx.Connect(ctx, st.postgres); err != nil {
		return err
	}
	if err := writeEvents(ctx, st.db, st.rows, o.groups, o.payload); err != nil {
		return err
	}
	// The topic is named by the job of each run; tables do not depend on it.
	if err := st.peer.create(ctx, st.db, job{Postgres: st.postgres, Brokers: s.brokers, Topic: "none"}); err != nil {
		return err
	}
	if err := st.expect(ctx); err != nil {
		return err
	}
	_, err = st.db.Exec(ctx, "VACUUM (ANALYZE)")
	return err
}

// expect tells the checker what must arrive.
func (st *stage) expect(ctx context.Context) error {
	rows, err := st.db.Query(ctx, st.peer.backlog())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		v := rows.RawValues()
		if err := st.check.expect(v[0], v[1]); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n := len(st.check.rows); n != st.rows {
		return fmt.Errorf("the table has %d rows instead of %d", n, st.rows)
	}
	return nil
}

// reset brings the stage to where it was before the first run.
func (st *stage) reset(ctx context.Context) error {
	if err := st.peer.rewind(ctx, st.db); err != nil {
		return err
	}
	st.check.reset()
	_, err := st.db.Exec(ctx, "CHECKPOINT")
	return err
}

func (st *stage) close() error {
	if st.db != nil {
		_ = st.db.Close(context.Background()) // the database goes, whatever the connection says
	}
	return st.drop()
}
