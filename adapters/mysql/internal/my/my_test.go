package my

import (
	"context"
	"crypto/tls"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, c Connection) *sql.DB {
	t.Helper()
	db, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSessionsAreAsThePackageSaysWhateverTheServersSettings(t *testing.T) {
	t.Parallel()
	db := open(t, Connection{URL: testenv.MySQL(t)})
	for _, statement := range []string{"CREATE TABLE t (id INT PRIMARY KEY, n INT, at TIMESTAMP(6) NULL)", "INSERT INTO t VALUES (1, 1, NULL)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var zone, mode, text string
	err := db.QueryRowContext(t.Context(), `SELECT @@time_zone, @@sql_mode, ?`, `it's \n`).Scan(&zone, &mode, &text)
	if err != nil || zone != "+00:00" || !strings.Contains(mode, "STRICT_ALL_TABLES") || text != `it's \n` {
		t.Errorf("time zone %q, modes %q, a text came back as %q (%v)", zone, mode, text, err)
	}
	result, err := db.ExecContext(t.Context(), "UPDATE t SET n = 1 WHERE id = 1")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.Errorf("an UPDATE that finds a row and changes nothing counts %d (%v), want 1", n, err)
	}
	// READ COMMITTED: a second read of a transaction sees what was committed meanwhile.
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for want := 1; want <= 2; want++ {
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT n FROM t").Scan(&n); err != nil || n != want {
			t.Errorf("read %d (%v), want %d", n, err, want)
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE t SET n = 2"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhyAConnectionIsNotMadeIsSaidWithAFixAndNoPassword(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(testenv.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	other := func(change func(u *url.URL)) string {
		u := *at
		change(&u)
		return u.String()
	}
	secured := "the server has no TLS"
	unchecked := other(func(u *url.URL) { u.RawQuery = "tls=skip-verify" })
	if open(t, Connection{URL: unchecked}).PingContext(t.Context()) == nil { // as newer servers have by themselves
		secured = "name the authority that signed it"
	}
	for name, test := range map[string]struct{ url, want string }{
		"user":     {other(func(u *url.URL) { u.User = url.UserPassword("nobody", "hidden") }), "correct user or password"},
		"database": {other(func(u *url.URL) { u.Path = "/nothing_here" }), "CREATE DATABASE `nothing_here`"},
		"port":     {other(func(u *url.URL) { u.Host = "127.0.0.1:1"; u.User = url.UserPassword("a", "hidden") }), "connection refused; start the server"},
		"TLS":      {other(func(u *url.URL) { u.RawQuery = "tls=true" }), secured},
	} {
		err := open(t, Connection{URL: test.url}).PingContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if _, ok := NotConnected(err); !ok {
			t.Errorf("%s: %v counts as another error", name, err)
		}
	}
	for text, want := range map[string]string{
		"": "no URL", "postgres://x/y": "cannot be parsed", "mysql://u@h/db?charset=latin1": "the parameter charset",
		"mysql://u:hidden@h:port/db": "cannot be parsed", "mysql://u@h/db?tls=maybe": "skip-verify",
	} {
		_, err := (&Connection{URL: text}).Open()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestConnectionsAreEncryptedAndTheServerIsChecked(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	server := testenv.StartSecureMariaDB(t, authority)
	encrypted := func(c Connection) (string, error) {
		var name, cipher string
		err := open(t, c).QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher)
		return cipher, err
	}
	trusted := &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
	if cipher, err := encrypted(Connection{URL: server.URL(), TLS: TLS{Config: trusted}}); err != nil || cipher == "" {
		t.Errorf("with the authority: cipher %q (%v)", cipher, err)
	}
	if cipher, err := encrypted(Connection{URL: server.URL() + "?tls=skip-verify"}); err != nil || cipher == "" {
		t.Errorf("without a check: cipher %q (%v)", cipher, err)
	}
	if cipher, err := encrypted(Connection{URL: server.URL()}); err != nil || cipher != "" {
		t.Errorf("to this machine: cipher %q (%v), want none", cipher, err)
	}
	if _, err := encrypted(Connection{URL: server.URL() + "?tls=true"}); err == nil || !strings.Contains(err.Error(), "ca_file") {
		t.Errorf("without the authority: %v, want a word about it", err)
	}
	wrong := trusted.Clone()
	wrong.ServerName = "elsewhere.example.com"
	if _, err := encrypted(Connection{URL: server.URL(), TLS: TLS{Config: wrong}}); err == nil || !strings.Contains(err.Error(), "server_name") {
		t.Errorf("with another name: %v", err)
	}
}

func TestAHostThatIsNotThisMachineNeedsTLSUnlessSaidOtherwise(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"mysql://u@db.example.com/x": true, "mysql://u@db.example.com/x?tls=false": false, "mysql://u@localhost/x": false,
		"mysql://u@127.0.0.1:3306/x": false, "mysql://u@[::1]/x": false, "mariadb://u@10.0.0.1/x": true, "mysql://u@h/x?socket=/run/s": false,
	} {
		cfg, err := (&Connection{URL: url}).config()
		if err != nil || (cfg.TLS != nil) != want {
			t.Errorf("%s: TLS %v, want %v (%v)", url, cfg != nil && cfg.TLS != nil, want, err)
		}
	}
	if _, err := (&Connection{URL: "mysql://u@h/x?tls=false", TLS: TLS{Off: true}}).config(); err == nil {
		t.Error("TLS said twice was accepted")
	}
}

func TestNamesOfTables(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"t": "`t`", "shop.t": "`shop`.`t`", "`a.b`.`c``d`": "`a.b`.`c``d`", "shop.`x`": "`shop`.`x`",
		"": "", "a.b.c": "", "`a": "", "`a`b": "", "a.": "",
	} {
		table, err := ParseTable(text)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q was read as %s", text, table.SQL())
		case want != "" && (err != nil || table.SQL() != want):
			t.Errorf("%q: %s (%v), want %s", text, table.SQL(), err, want)
		}
	}
}

func TestTransactRunsAgainAfterADeadlock(t *testing.T) {
	t.Parallel()
	db := open(t, Connection{URL: testenv.MySQL(t)})
	for _, statement := range []string{"CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO t VALUES (1, 0), (2, 0)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var both [2]chan struct{} // has its first row
	for i := range both {
		both[i] = make(chan struct{})
	}
	errs := make(chan error, 2)
	for i := range both {
		go func() {
			tries := 0
			errs <- Transact(context.Background(), db, func(tx *sql.Tx) error {
				if _, err := tx.Exec("UPDATE t SET n = n + 1 WHERE id = ?", 1+i); err != nil {
					return err
				}
				if tries++; tries == 1 {
					close(both[i])
					<-both[1-i]
				}
				_, err := tx.Exec("UPDATE t SET n = n + 1 WHERE id = ?", 2-i)
				return err
			})
		}()
	}
	for range both {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	var sum int
	if err := db.QueryRowContext(t.Context(), "SELECT sum(n) FROM t").Scan(&sum); err != nil || sum != 4 {
		t.Errorf("the rows have %d, want 4 (%v)", sum, err)
	}
}
