package sqlite

import (
	"database/sql"

	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Open opens the SQLite database at path for reading and writing, with the
// settings of the package documentation, creating the file when there is none.
// It is for applications that have no handle of their own.
//
// The path is a file's path, or a "file:" URI as SQLite documents it, for
// example file:demo?mode=memory&cache=shared for a database in memory.
func Open(path string) (*sql.DB, error) { return lite.Open(path) }

// File returns the name of the file that a path means, as [Open] takes it: a path is
// the name itself, the path of a "file:" URI is percent-encoded. Everything that looks
// at the file without SQLite goes by it. Empty: the database is in memory. An error
// says what is wrong with the path.
func File(path string) (string, error) { return lite.File(path) }
