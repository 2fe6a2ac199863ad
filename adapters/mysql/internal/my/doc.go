// Package my is the ground of the packages of the MySQL adapter: connections to MariaDB and MySQL, their
// sessions, errors and names. It knows no tables.
//
// # Sessions
//
// Whatever the server's settings are, a session of ours is at READ COMMITTED, has the time zone UTC, is strict, takes a
// backslash for itself, and counts the rows that a statement has found, not those that it has changed.
// Values travel inside the statements ([mysql.Config.InterpolateParams]): a statement is one round trip. So a text
// goes in as a string and bytes as []byte, which are compared as bytes, and use no index of a column of text.
//
// [mysql.Config.InterpolateParams]: https://pkg.go.dev/github.com/go-sql-driver/mysql#Config
package my
