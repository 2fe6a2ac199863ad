package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// FollowAnew makes the server a standby of a primary that runs: it is stopped if it runs, its data is replaced by a copy of the primary's
// (pg_basebackup), and it is started.
func (s *Postgres) FollowAnew(ctx context.Context, primary *Postgres) error {
	if s.PID() != 0 {
		if err := s.Stop(Immediate); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	err := s.run(ctx, filepath.Join(s.opts.Bin, "pg_basebackup"), "--dbname="+primary.URL(), "--pgdata="+s.data(), "--checkpoint=fast", "--wal-method=stream",
		"--write-recovery-conf")
	if err != nil {
		return fmt.Errorf("copy the primary: %w", err)
	}
	return s.Start(ctx)
}

// FollowAgain makes a stopped former primary a standby of the new one: it takes back what the new one does not have (pg_rewind), and is started. It needs the
// setting wal_log_hints.
func (s *Postgres) FollowAgain(ctx context.Context, primary *Postgres) error {
	// Before its first checkpoint the new primary's control file has the old timeline, and there would be nothing to do.
	if err := primary.Exec(ctx, "CHECKPOINT"); err != nil {
		return err
	}
	err := s.run(ctx, filepath.Join(s.opts.Bin, "pg_rewind"), "--source-server="+primary.URL(), "--target-pgdata="+s.data(), "--write-recovery-conf", "--no-sync")
	if err != nil {
		return fmt.Errorf("rewind a former primary: %w", err)
	}
	return s.Start(ctx)
}

// Exec runs a statement in the database "postgres".
func (s *Postgres) Exec(ctx context.Context, statement string, args ...any) (err error) {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, statement, args...)
	return err
}
