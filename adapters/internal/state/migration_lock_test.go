package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
)

// goneLocker is a lock whose connection is taken away while it is released, as database/sql sees it.
type goneLocker struct{}

func (goneLocker) SessionLock(context.Context, *sql.Conn) error { return nil }

func (goneLocker) SessionUnlock(context.Context, *sql.Conn) error {
	var gone *sql.Tx
	return gone.Commit()
}

func TestAMigrationLockWhoseConnectionIsGone(t *testing.T) {
	t.Parallel()
	if err := (MigrationLock{goneLocker{}}).SessionUnlock(t.Context(), nil); !errors.Is(err, driver.ErrBadConn) {
		t.Errorf("got %v", err)
	}
}
