package owntable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Config says where a [Source] reads.
type Config struct {
	Path   string       // of the database, as package sqlite opens it; it must exist
	Table  string       // empty: [DefaultTable]
	Logger *slog.Logger // nil: slog.Default()

	// Columns describes a table that is not of the own layout. nil: it is.
	Columns *Columns

	// MaxRow is the largest payload that is read, in bytes; a row with a larger one
	// is dead. 0: [adapters.DefaultMaxRow].
	MaxRow int64
}

// Source reads an outbox table by position. It implements [adapters.Source] and
// never writes: its connections refuse to. Retention, where it is wanted, and giving
// a file its identity ([Source.Table]) have a connection of their own.
//
// # Why the position alone is the cursor
//
// SQLite has one writer at a time: it holds the write lock from its first write
// to its commit or rollback. A position is therefore assigned only after the
// transaction with the position before it has ended, and rows become visible
// in the order of their positions. A reader sees whole commits only. So
// a reader that has read up to position L will never see a new row at or below L:
//   - A rolled back transaction gives its positions back (AUTOINCREMENT keeps
//     its counter in a table, which is rolled back too). The next transaction
//     uses them again; but no reader had seen them, so no cursor is there.
//   - Positions of committed rows are not used again, even after a delete.
//
// This does not hold for rows that are inserted with a position of the
// application's own choosing below the newest, nor for a file that was replaced by
// another or a table that was emptied with its counter; [Source.Validate] and
// [Source.Fetch] notice the latter two. A cursor has no snapshot here, and no row is
// ever late.
type Source struct {
	db    *sql.DB
	path  string
	table string
	shape shape
	log   *slog.Logger
	query string

	unmovedQuery string

	newest int64        // when the newest row was created that was read, in microseconds since 1970; only Fetch uses it
	looked atomic.Int64 // rows that were created up to then were there before anything was read

	maxRow int64
	file   *lite.Watch

	retention retention
}

var _ adapters.OperatorSource = (*Source)(nil)

// New opens the source. It reads nothing yet; see [Source.Check].
func New(cfg Config) (*Source, error) {
	shape, err := newShape(cfg.Table, cfg.Columns)
	if err != nil {
		return nil, fmt.Errorf("sqlite source %s: %w", shape.table, err)
	}
	db, err := lite.OpenReadOnly(cfg.Path)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	maxRow := cmp.Or(cfg.MaxRow, adapters.DefaultMaxRow)
	name, _ := lite.File(cfg.Path) // it was opened
	s := &Source{
		db: db, path: cfg.Path, table: shape.table, shape: shape, log: log, maxRow: maxRow,
		query: `SELECT ` + strings.Join(selected(maxRow), ", ") + ` FROM ` + shape.from +
			` WHERE position > ? ORDER BY position LIMIT ?`,
		unmovedQuery: unmovedSQL(shape.from), file: lite.WatchFile(name),
	}
	return s, nil
}

// Check verifies the table and its columns. A file that is not in WAL mode is
// only warned about: reading it delays the application's commits.
func (s *Source) Check(ctx context.Context) error {
	if err := s.shape.check(ctx, s.db); err != nil {
		return s.wrap("check", err)
	}
	var mode string
	if err := s.db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return s.wrap("check", err)
	}
	if mode != "wal" && mode != "memory" {
		s.log.WarnContext(ctx, "the database is not in WAL mode: reads and the application's commits wait for each other; "+
			"`outrider init` changes it", "table", s.table, "journal_mode", mode)
	}
	return nil
}

// Table implements [adapters.Source]. A file names no cluster: its identity goes with it, and is part of its
// tables' names. [Source.Validate] compares positions.
func (s *Source) Table(ctx context.Context) (t adapters.Table, err error) {
	t.Lanes = s.lanesFrom()
	id, err := s.fileID(ctx)
	if err != nil {
		return t, s.wrap("ask for the file's identity", err)
	}
	t.Name = "sqlite/" + id + "/" + strings.ToLower(s.table)
	return t, nil
}

func (s *Source) lanesFrom() string {
	group, id := "message_group", "id"
	if c := s.shape.columns; c != nil {
		group, id = c.Group, c.ID
	}
	if group == "" {
		return "column " + strconv.Quote(id)
	}
	return fmt.Sprintf("column %q or column %q", group, id)
}

// Validate refuses cursors of another database, and those ahead of the table:
// new rows would count as delivered until the table has caught up.
func (s *Source) Validate(ctx context.Context, c adapters.Cursor) error {
	if c.Snapshot != "" || c.Window != "" {
		return s.wrap("validate", fmt.Errorf("%w, which is SQLite; `outrider rebase` repositions it", adapters.ErrForeignCursor))
	}
	var newest int64
	err := s.db.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?`, s.table).Scan(&newest)
	if err != nil {
		return s.wrap("validate", err)
	}
	if c.Position > newest {
		return s.wrap("validate", s.shorter(c.Position, newest))
	}
	if err := s.checkAnchor(ctx, c); err != nil {
		return s.wrap("validate", err)
	}
	return nil
}

// Start returns the first cursor of a new route. For [adapters.StartTime] it
// stands before the first position that was created at or after the time, by
// the column created_at with the precision of a millisecond.
func (s *Source) Start(ctx context.Context, at adapters.Start) (adapters.Cursor, error) {
	table := s.shape.from
	var query string
	var args []any
	switch at.Kind {
	case adapters.StartBeginning:
		position, err := s.beginning(ctx)
		if err != nil {
			return adapters.Cursor{}, s.wrap("start", err)
		}
		return adapters.Cursor{Position: position}, nil
	case adapters.StartEnd:
		query = `SELECT coalesce(max(position), 0) FROM ` + table
	case adapters.StartTime:
		if !s.shape.dated() {
			return adapters.Cursor{}, s.wrap("start", adapters.NoStart("no column says when a row was created; add created_at to columns, or start elsewhere"))
		}
		query = `SELECT coalesce(
    (SELECT min(position) - 1 FROM ` + table + ` WHERE round(unixepoch(created_at, 'subsec') * 1000) >= ?),
    (SELECT max(position) FROM ` + table + `), 0)`
		// Rounded up: a row of the millisecond in which the time lies was
		// created before it as far as is known.
		args = append(args, at.Time.Add(time.Millisecond-1).UnixMilli())
	default:
		return adapters.Cursor{}, s.wrap("start", adapters.NoStart(fmt.Sprintf("%q is none of beginning, end, time", at.Kind)))
	}
	var c adapters.Cursor
	if err := s.db.QueryRowContext(ctx, query, args...).Scan(&c.Position); err != nil {
		return adapters.Cursor{}, s.wrap("start", err)
	}
	return c, nil
}

// beginning is the position of a cursor before all rows. An application can give a table
// of its own a row at position 0, or below, which AUTOINCREMENT never does: there it
// is -1, or before the first row.
func (s *Source) beginning(ctx context.Context) (position int64, err error) {
	if s.shape.columns == nil {
		return 0, nil
	}
	err = s.db.QueryRowContext(ctx, `SELECT min(-1, coalesce(max(min(position), ?) - 1, -1)) FROM `+s.shape.from, math.MinInt64+1).Scan(&position)
	return position, err
}

// Close releases the connections.
func (s *Source) Close() error { return errors.Join(s.closeRetention(), s.db.Close()) }

func (s *Source) wrap(what string, err error) error {
	return fmt.Errorf("sqlite source %s: %s: %w", s.table, what, err)
}
