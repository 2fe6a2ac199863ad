package owntable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
	lib "modernc.org/sqlite/lib"
)

// fileSQL gives a file an identity of its own, which goes with it wherever it is
// moved: two files with a table of the same name can share a state store, and
// cursors of one mean nothing in the other. [Init] runs it.
const fileSQL = `CREATE TABLE IF NOT EXISTS outrider_file (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id  TEXT NOT NULL
);
INSERT INTO outrider_file (one, id) VALUES (1, lower(hex(randomblob(16)))) ON CONFLICT DO NOTHING;
`

// fileID returns the file's identity. A
// file of the own layout that has none yet, because it is from before there
// were any, gets one. One that cannot be written to, or whose tables belong to
// another program, is known by its path.
func (s *Source) fileID(ctx context.Context) (string, error) {
	id, err := identityIn(ctx, s.db)
	if err != nil || id != "" {
		return id, err
	}
	if s.shape.columns == nil {
		id, err := s.identify(ctx)
		if err == nil || !unwritable(err) {
			return id, err
		}
	}
	name, err := lite.File(s.path)
	if err != nil || name == "" {
		return s.path, err
	}
	return filepath.Abs(name)
}

// identityIn returns the identity of a file; empty: it has none.
func identityIn(ctx context.Context, db *sql.DB) (id string, err error) {
	var there bool
	err = db.QueryRowContext(ctx, `SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'outrider_file'`).Scan(&there)
	if err != nil || !there {
		return "", err
	}
	err = db.QueryRowContext(ctx, `SELECT id FROM outrider_file`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// identify gives the file an identity.
func (s *Source) identify(ctx context.Context) (string, error) {
	s.retention.mu.Lock()
	defer s.retention.mu.Unlock()
	db, err := s.writable()
	if err != nil {
		return "", err
	}
	if err := lite.RetryBusy(ctx, func() error { _, err := db.ExecContext(ctx, fileSQL); return err }); err != nil {
		return "", fmt.Errorf("create table outrider_file: %w", err)
	}
	return identityIn(ctx, db)
}

// unwritable reports whether an error says that the file cannot be written to.
func unwritable(err error) bool {
	switch lite.Code(err) {
	case lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return true
	}
	return false
}
