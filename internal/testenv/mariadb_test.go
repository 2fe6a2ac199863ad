package testenv_test

import (
	"database/sql"
	"errors"
	"net/url"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outriderhq/outrider/internal/testenv"
)

// connect opens connections to a database of MariaDB.
func connect(t *testing.T, at string) *sql.DB {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName, cfg.Logger = u.User.Username(), "tcp", u.Host, u.Path[1:], &mysql.NopLogger{}
	cfg.Passwd, _ = u.User.Password()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func mustExec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestMySQLGivesEachTestItsOwnDatabaseAndDropsItWhoeverUsesIt(t *testing.T) {
	t.Parallel()
	other := connect(t, testenv.MySQL(t))
	var name string
	var open *sql.Tx
	t.Run("owner", func(t *testing.T) {
		db := connect(t, testenv.MySQL(t))
		if err := db.QueryRowContext(t.Context(), "SELECT database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, "CREATE TABLE here (id INT) ENGINE=InnoDB")
		tx, err := db.Begin() // not of the test's context, which would end it
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO here VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		open = tx
	})
	if err := open.Rollback(); err == nil {
		t.Error("the transaction of a database that was dropped is there still")
	}
	var there int
	err := other.QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?", name).Scan(&there)
	if err != nil || there != 0 || name == "" {
		t.Errorf("database %q: %d are there still (%v)", name, there, err)
	}
}

func TestPrivateMariaDBKeepsItsDataOverStopAndKill(t *testing.T) {
	t.Parallel()
	s := testenv.StartMariaDB(t, "sql_mode=ANSI_QUOTES")
	db := connect(t, s.Database())
	mustExec(t, db, `CREATE TABLE "kept" (id INT) ENGINE=InnoDB`)
	for i, end := range []func(){s.Stop, s.Kill} {
		mustExec(t, db, "INSERT INTO kept VALUES (1)")
		end()
		if err := db.PingContext(t.Context()); err == nil {
			t.Fatalf("end %d: the server still answers", i)
		}
		s.Start()
		var n int
		if err := errors.Join(db.PingContext(t.Context()), db.QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&n)); err != nil || n != i+1 {
			t.Errorf("end %d: %d rows after the restart, want %d (%v)", i, n, i+1, err)
		}
	}
}
