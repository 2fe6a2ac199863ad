package statestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

//go:embed migrations/*.sql
var stateMigrations embed.FS

const (
	// stateVersionTable is where goose keeps what it has applied; a name of
	// its own, so that it does not meet an application's goose.
	stateVersionTable = "outrider_migrations"

	// createVersionsSQL and beginVersionsSQL do what goose would do in one step, which MySQL can cut in two: then goose
	// finds a table without its first row, and refuses it for good.
	createVersionsSQL = `CREATE TABLE IF NOT EXISTS outrider_migrations (
    id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    version_id BIGINT          NOT NULL,
    is_applied BOOLEAN         NOT NULL,
    tstamp     DATETIME        NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB`
	beginVersionsSQL = `INSERT INTO outrider_migrations (version_id, is_applied)
SELECT 0, true FROM (SELECT count(*) AS n FROM outrider_migrations) AS t WHERE t.n = 0`

	// migrationLock is the name of the lock of a running migration, and migrationWait for how many seconds it is waited for.
	migrationLock = `concat('outrider-migrate-', left(sha2(database(), 256), 32))`
	migrationWait = "300"
)

// Migrate creates or upgrades the tables. Instances that start together take
// turns; the later ones find nothing to do. A user who may not do it needs no right
// to where there is nothing to do. MySQL commits each of its statements by itself; what was cut short is repeated.
func (s *Store) Migrate(ctx context.Context) error {
	version, newest, err := s.StateVersion(ctx)
	if err != nil || version >= newest {
		return err
	}
	err = s.migrate(ctx)
	if my.FailedWith(err, my.TableDenied, my.AccessDeniedDB, my.PrivilegeDenied) {
		return fmt.Errorf("state store: migrate: the state tables are of version %d, this program needs %d, and this user may not change that (%w): run `outrider init` as a user "+
			"with CREATE, ALTER, INDEX and REFERENCES on the database; `outrider init --print` shows the statements, and the grants that the relay needs", version, newest, err)
	}
	return stateError("migrate", err)
}

func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(stateMigrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectMySQL, s.db, files,
		goose.WithTableName(stateVersionTable), goose.WithSessionLocker(state.MigrationLock{SessionLocker: migrationLocker{}}),
		goose.WithDisableGlobalRegistry(true)) // without the migrations that the application has registered
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// migrationLocker lets those who migrate a database take turns.
type migrationLocker struct{}

var _ lock.SessionLocker = migrationLocker{}

// SessionLock implements [lock.SessionLocker].
func (migrationLocker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, `SELECT get_lock(`+migrationLock+`, `+migrationWait+`)`).Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errors.New("another process has been migrating this database for minutes")
	}
	for _, statement := range []string{createVersionsSQL, beginVersionsSQL} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return errors.Join(err, migrationLocker{}.SessionUnlock(ctx, conn))
		}
	}
	return nil
}

// SessionUnlock implements [lock.SessionLocker].
func (migrationLocker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `DO release_lock(`+migrationLock+`)`)
	return err
}

// version is that of the state tables; 0: there are none.
func (s *Store) version(ctx context.Context) (version int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM outrider_migrations WHERE is_applied`).Scan(&version)
	if my.FailedWith(err, my.NoSuchTable) {
		return 0, nil
	}
	return version, err
}

// InitSQL returns the statements that create the state tables in the session's database, or bring them up
// to date: those for each version, in order, and what says that it was reached. For
// the grants see [Grants].
func InitSQL() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s;\n%s;\n", createVersionsSQL, beginVersionsSQL)
	err := state.PrintVersions(&b, stateMigrations, stateVersionTable, func(up string) string { return up })
	return b.String(), err
}
