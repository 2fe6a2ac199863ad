package owntable

import (
	"context"
	"errors"
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

// Examine implements [adapters.Examiner].
func (s *Source) Examine(ctx context.Context) []adapters.Finding {
	var version, mode, path string
	err := errors.Join(
		s.db.QueryRowContext(ctx, `SELECT sqlite_version(), coalesce(max(file), '') FROM pragma_database_list WHERE name = 'main'`).Scan(&version, &path),
		s.db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode))
	if err != nil {
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: "database file", Text: err.Error(),
			Fix: "correct the path, or create the database with `outrider init`; the file and its folder must be readable and writable"}}
	}
	f := []adapters.Finding{{Subject: "database file", Text: strings.TrimSpace(path + " (SQLite " + version + ")")}}
	if err := s.shape.check(ctx, s.db); err != nil {
		f = append(f, adapters.FindingsOf("table "+s.table, err)...)
	} else {
		f = append(f, adapters.Finding{Subject: "table " + s.table, Text: "its columns are all there, positions are never used twice"})
	}
	if mode != "wal" && mode != "memory" {
		return append(f, adapters.Finding{Level: adapters.LevelWarning, Subject: "journal mode",
			Text: mode + ": reads and the application's commits wait for each other", Fix: "`outrider init` changes it to WAL"})
	}
	return append(f, adapters.Finding{Subject: "journal mode", Text: mode})
}
