package mysql

import (
	"database/sql"

	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// TLS says how connections by URL are encrypted. The zero value is safe.
type TLS = my.TLS

// Open returns connections to a database for work apart from the relay's,
// as the relay itself would open them. It does not connect.
func Open(url string, security TLS) (*sql.DB, error) {
	c := my.Connection{URL: url, TLS: security}
	return c.Open()
}

// Database names the database that a URL leads to, to compare two URLs; empty: the URL cannot be
// parsed. Two names of one database are two databases here.
func Database(url string) string { return my.Database(url) }

// ConnectionProblem returns what keeps a connection from being made, in one sentence
// without passwords, when that is what an error of this package is about. The same
// problem of two connections has the same text.
func ConnectionProblem(err error) (text string, ok bool) {
	if e, is := my.NotConnected(err); is {
		return e.Text, true
	}
	return "", false
}

// ConnectionLost reports whether an error of this package is about a connection that ended early.
func ConnectionLost(err error) bool { return my.Lost(err) }

// ConnectionFix is the fix of a [ConnectionProblem]; empty for any other error.
func ConnectionFix(err error) string { return my.ConnectionFix(err) }
