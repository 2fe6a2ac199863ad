package lite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	msqlite "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/outriderhq/outrider/adapters"
)

// busyTimeout is how long, in milliseconds, a statement waits for a lock.
const busyTimeout = "5000"

// Open opens the SQLite database at path for reading and writing, with the
// settings of the package documentation, creating the file when there is none.
// It is for applications that have no handle of their own.
//
// The path is a file's path, or a "file:" URI as SQLite documents it, for
// example file:demo?mode=memory&cache=shared for a database in memory.
func Open(path string) (*sql.DB, error) {
	return open(path, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(" + busyTimeout + ")", "foreign_keys(1)", "synchronous(NORMAL)"},
	})
}

// OpenReadOnly opens an existing database; the connections refuse to write.
func OpenReadOnly(path string) (*sql.DB, error) {
	params := url.Values{"_pragma": {"busy_timeout(" + busyTimeout + ")", "query_only(1)"}}
	if l, err := Locate(path); err == nil && !l.moded {
		params.Set("mode", "rw") // do not create it; rw because WAL readers share memory
	}
	return open(path, params)
}

func open(path string, params url.Values) (*sql.DB, error) {
	l, err := Locate(path)
	if err != nil {
		return nil, err
	}
	c, err := newConnector(l, l.dataSource(params))
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	db := sql.OpenDB(c)
	if l.memory {
		// The database lives as long as a connection to it does.
		db.SetMaxIdleConns(maxConns)
	}
	db.SetMaxOpenConns(maxConns)
	return db, nil
}

// maxConns bounds a handle's connections: one writes, the rest read.
const maxConns = 4

// UseWAL puts the file into WAL mode unless it is. Databases in memory have
// no such mode and stay as they are.
func UseWAL(ctx context.Context, db *sql.DB) error {
	var mode string
	if err := RetryBusy(ctx, func() error {
		return db.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode)
	}); err != nil {
		return fmt.Errorf("switch to WAL mode (close other programs that hold the file): %w", err)
	}
	return nil
}

// BusyRetries bounds how often a transaction is tried that found the database
// locked; each try has waited for the busy timeout already.
const BusyRetries = 6

// A table of a database in memory that other connections of this process use is
// locked without waiting for the busy timeout: then this function waits.
const (
	lockedRetries = 1000
	lockedPause   = 5 * time.Millisecond
)

// RetryBusy runs f again while another program holds the database.
func RetryBusy(ctx context.Context, f func() error) error {
	var err error
	for busy, locked := 0, 0; busy < BusyRetries && locked < lockedRetries; {
		err = f()
		switch {
		case err == nil, ctx.Err() != nil, !IsBusy(err):
			return err
		case Code(err) != lib.SQLITE_LOCKED:
			busy++
			continue
		}
		locked++
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lockedPause):
		}
	}
	return fmt.Errorf("%w; another program holds the database for long: look for a transaction left open", err)
}

// Transact runs f in one transaction that holds the write lock from its
// beginning (db is one of [Open]), and again as a whole when another program held it for too long.
func Transact(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	return RetryBusy(ctx, func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			_ = tx.Rollback() // the first error says more
			return err
		}
		return tx.Commit()
	})
}

// IsBusy reports whether an error says that the database is locked.
func IsBusy(err error) bool {
	return Code(err) == lib.SQLITE_BUSY || Code(err) == lib.SQLITE_LOCKED
}

// Code is SQLite's result code of an error, 0 for others. The low byte of the
// extended code is the code, the rest says more about it.
func Code(err error) int {
	var e *msqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// Refused marks an error of a write by which the table refuses a row.
func Refused(err error) error {
	if code := Code(err); code == lib.SQLITE_CONSTRAINT || code == lib.SQLITE_MISMATCH || code == lib.SQLITE_TOOBIG {
		return fmt.Errorf("%w: %w", adapters.ErrRefused, err)
	}
	return err
}

// Quote quotes an identifier.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
