package state

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/pressly/goose/v3/lock"
)

// MigrationLock is the lock of those who migrate a database, made safe for migrations that are called off.
type MigrationLock struct{ lock.SessionLocker }

// SessionUnlock implements [lock.SessionLocker]. A transaction whose context has ended gives its connection up in the background. If that
// happens just when another statement takes the connection, database/sql uses a nil pointer and panics. The lock ends with the connection.
func (l MigrationLock) SessionUnlock(ctx context.Context, conn *sql.Conn) (err error) {
	defer func() {
		if recover() != nil {
			err = driver.ErrBadConn
		}
	}()
	return l.SessionLocker.SessionUnlock(ctx, conn)
}
