package config

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/outriderhq/outrider/config/internal/form"
)

// MySQL is a queue table in a database of MariaDB or MySQL. There are no append-only ones: see package adapters/mysql.
type MySQL struct {
	URL         SecretURL `yaml:"url" required:"true" doc:"mysql:// or mariadb:// URL of the primary server, with the database. A connection may take 10 s to open, or the seconds of its parameter connect_timeout."`
	TLS         TLS       `yaml:"tls" doc:"Encryption of the connections. Default: the URL's parameter tls; without it TLS with a verified certificate, unless the server is on this machine or reached by a Unix socket."`
	TableSource `yaml:",inline"`

	_ form.Key `yaml:"layout" enum:"{layouts in mysql}|custom" required:"true" doc:"Layout of the table, whose rows carry a status: that of a known system (docs/layouts.md describes each, with its defaults), or custom, described by queue (docs/mysql.md)."`
	_ form.Key `yaml:"table" doc:"Name of the table, with its database if that is not the URL's. Named layouts default to the original's name; layout custom requires it."`

	_ form.Key `yaml:"tables"`
	_ form.Key `yaml:"queue" doc:"With layout custom: columns of the table. Times are TIMESTAMP, or DATETIME in UTC, preferably with (6)."`
	_ form.Key `yaml:"claims"`

	_ form.Key `yaml:"delivered" doc:"Whether a delivered row is kept, with its status, or deleted."`

	_ form.Key `yaml:"wake" doc:"How new rows are found. MariaDB and MySQL cannot notify."`
	_ form.Key `yaml:"poll" doc:"Interval and size of reads. batch is 500 by default."`

	_ form.Key `yaml:"max_row"`

	_ form.Key `yaml:"leader"`

	LeaderLock string `yaml:"leader_lock" doc:"With leader: true: name of a lock on the source's server (GET_LOCK), at most 64 characters, which the leader holds while it runs. Outrider and another program with the same lock stand by for each other. Default: none."`

	Retention *QueueRetention `yaml:"retention" doc:"Removes delivered rows that are old; {} is enough. Default: rows are never removed. See docs/retention.md."`
}

// Kind is "mysql".
func (*MySQL) Kind() string { return "mysql" }

func (m *MySQL) traits() traits {
	return traits{database: m.URL.Reveal(), tls: &m.TLS, state: &mysqlState}
}

var mysqlState = stateKind{
	schemes: mysqlSchemes,
	check: func(c *form.Checker, at form.Location, s *State, _ string) {
		mysqlURL(c, at.Child("url"), s.URL)
		mysqlTLS(c, at, s.URL, &s.TLS)
	},
}

var mysqlSchemes = []string{"mysql", "mariadb"}

func (m *MySQL) check(c *form.Checker, at form.Location) {
	mysqlURL(c, at.Child("url"), m.URL)
	mysqlTLS(c, at, m.URL, &m.TLS)
	if !at.Sound("layout") {
		return
	}
	if m.Layout == custom {
		if !at.Has("table") {
			c.Add(at.Child("table"), "a custom layout needs the name of its table").Fix("add table: NAME")
		}
		if !at.Has("queue") {
			c.Add(at.Child("queue"), "a table in MySQL is described by a queue: its rows carry a status").
				Fix("add queue: {key: ..., type: ..., payload: ..., status: ..., created: ..., claimed: ...}; docs/mysql.md says why there is no append-only table")
			return
		}
	}
	m.checkQueue(c, at)
	if at.Has("leader_lock") && at.Sound("leader") && !m.Leader {
		c.Add(at.Child("leader_lock").Key(), "has an effect for a leader only").Fix("set leader: true, or remove the key")
	}
	if n := utf8.RuneCountInString(m.LeaderLock); n > 64 || n == 0 && at.Has("leader_lock") {
		c.Add(at.Child("leader_lock"), "is a name of %d characters", n).Fix("GET_LOCK takes 1 to 64")
	}
	if p := m.Preset(); p == nil || !severalTables(p) {
		m.Tables = Queues{} // so that the configuration can be printed and read back
	}
}

// mysqlURL checks a mysql:// URL.
func mysqlURL(c *form.Checker, at form.Location, u SecretURL) {
	parsed := databaseURL(c, at, u, "3306", "", mysqlSchemes...)
	if parsed == nil {
		return
	}
	if strings.Trim(parsed.Path, "/") == "" {
		c.Add(at, "names no database").Fix("for example mysql://user@host:3306/database")
	}
	for name := range parsed.Query() {
		if !slices.Contains([]string{"tls", "connect_timeout", "socket"}, name) {
			c.Add(at, "has the unknown parameter %s", form.Shorten(name)).Fix("known parameters: tls, connect_timeout, socket")
		}
	}
}

// mysqlTLS checks the encryption of a mysql:// URL; at is the mapping with url and tls.
func mysqlTLS(c *form.Checker, at form.Location, u SecretURL, t *TLS) {
	parsed, err := url.Parse(u.Reveal())
	if err != nil || u.IsZero() {
		return // reported
	}
	where, mode := at.Child("url"), parsed.Query().Get("tls")
	switch {
	case t.given() && mode != "":
		c.Add(at.Child("tls").Key(), "the parameter tls of the url and this section exclude each other").Fix("keep one of them")
	case !slices.Contains([]string{"", "true", "false", "skip-verify"}, mode):
		c.Add(where, "has a value of tls that does not exist").Fix("use true, or one of skip-verify, false")
	case parsed.Query().Get("socket") != "" || loopback(parsed.Hostname()):
	case t.Off():
		c.Warn(at.Child("tls").Child("enabled"), "%s", modes["disable"]).Fix("remove it: TLS with a check of the server's certificate is the default")
	case mode == "false":
		c.Warn(where, "tls=false %s", modes["disable"]).Fix("remove it: TLS with a check of the server's certificate is the default")
	case mode == "skip-verify":
		c.Warn(where, "tls=skip-verify %s", modes["require"]).Fix("remove it, and name an authority of your own with tls: {ca_file: ...} beside the url")
	case mode == "" && !t.given():
		c.Note(where, "does not mention TLS: it is used, and the server's certificate checked").
			Fix("a server with a certificate of your own authority needs tls: {ca_file: ...} beside the url, one without TLS tls: {enabled: false}")
	}
}
