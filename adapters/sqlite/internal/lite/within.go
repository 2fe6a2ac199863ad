package lite

import (
	"context"
	"database/sql"
	"os"
)

// running is a transaction that a context carries.
type running struct {
	path string // of its database
	tx   *sql.Tx
}

type runningKey struct{}

// Within returns a context for what else is to be written in a transaction, which is one of the database at path. A second transaction of
// the database would wait for this one to end, and this one for it.
func Within(ctx context.Context, path string, tx *sql.Tx) context.Context {
	return context.WithValue(ctx, runningKey{}, running{path, tx})
}

// Running returns the transaction that the context carries if it is one of the database at path, otherwise nil.
func Running(ctx context.Context, path string) *sql.Tx {
	r, _ := ctx.Value(runningKey{}).(running)
	if r.tx == nil || !sameDatabase(r.path, path) {
		return nil
	}
	return r.tx
}

// sameDatabase reports whether two paths mean one database.
func sameDatabase(a, b string) bool {
	x, xErr := Locate(a)
	y, yErr := Locate(b)
	switch {
	case xErr != nil || yErr != nil || x.memory != y.memory:
		return false
	case x.memory || x.name == y.name:
		return x.name == y.name
	}
	one, xErr := os.Stat(x.name)
	other, yErr := os.Stat(y.name)
	return xErr == nil && yErr == nil && os.SameFile(one, other)
}
