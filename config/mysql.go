package config

import (
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters/layout"
)

// MySQL is a queue table in a database of MariaDB or MySQL. There are no append-only ones: see package adapters/mysql.
type MySQL struct {
	URL    SecretURL `yaml:"url" required:"true" doc:"mysql:// or mariadb:// URL of the primary server, with the database. A connection may take 10 s to open, or the seconds of its parameter connect_timeout."`
	TLS    TLS       `yaml:"tls" doc:"Encryption of the connections. Default: the URL's parameter tls; without it TLS with a verified certificate, unless the server is on this machine or reached by a Unix socket."`
	Layout string    `yaml:"layout" enum:"{layouts in MySQL}|custom" required:"true" doc:"Layout of the table, whose rows carry a status: that of a known system (docs/layouts.md describes each, with its defaults), or custom, described by queue (docs/mysql.md)."`
	Table  Table     `yaml:"table" doc:"Name of the table, with its database if that is not the URL's. Named layouts default to the original's name; layout custom requires it."`

	Tables Queues `yaml:"tables" doc:"With layout {layouts with several tables}: names of its tables."`
	Queue  *Queue `yaml:"queue" doc:"With layout custom: columns of the table. Times are TIMESTAMP, or DATETIME in UTC, preferably with (6)."`
	Claims Claims `yaml:"claims" doc:"Limits and timeouts of claims."`

	Delivered string `yaml:"delivered" enum:"keep|delete" default:"keep" doc:"Whether a delivered row is kept, with its status, or deleted."`

	Wake string `yaml:"wake" enum:"poll" default:"poll" doc:"How new rows are found. MariaDB and MySQL cannot notify."`
	Poll Poll   `yaml:"poll" doc:"Interval and size of reads. batch is 500 by default."`

	MaxRow Size `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest payload that is read. A row with a larger one is dead, with its size in the error, and is not loaded. The same holds for a row with more than 1,000 headers or tags, 1 MiB of them, or names (id, type, group, tenant and so on) of more than 1 KiB. One message may exceed the budget memory, so max_row should be less than memory."`

	Leader bool `yaml:"leader" default:"false" doc:"One instance at a time runs all routes of this source, the others stand by. By default lanes are spread over all instances; with layout {layouts with a leader} the default is true. See docs/instances.md."`

	LeaderLock string `yaml:"leader_lock" doc:"With leader: true: name of a lock on the source's server (GET_LOCK), at most 64 characters, which the leader holds while it runs. Outrider and another program with the same lock stand by for each other. Default: none."`

	Retention *QueueRetention `yaml:"retention" doc:"Removes delivered rows that are old; {} is enough. Default: rows are never removed. See docs/retention.md."`
}

// Kind is "mysql".
func (*MySQL) Kind() string { return "mysql" }
func (*MySQL) log() bool    { return false }

// Preset is the layout's preset; nil: the table is described in the file.
func (m *MySQL) Preset() *layout.Preset { return layout.Find(m.Layout) }

// Deletes reports whether rows that were delivered are deleted.
func (m *MySQL) Deletes() bool { return m.Delivered == deleted }

func (m *MySQL) keys() *tableKeys {
	return &tableKeys{m.URL.Reveal(), m.Layout, &m.Table, &m.Tables, m.Queue, &m.Poll, &m.Claims, &m.Delivered, &m.Leader, false}
}

func (m *MySQL) check(c *checker, at place) {
	c.mysqlURL(at.child("url"), m.URL)
	c.mysqlTLS(at, m.URL, &m.TLS)
	if !at.sound("layout") {
		return
	}
	if m.Layout == custom {
		if !at.has("table") {
			c.add(at.child("table"), "a custom layout needs the name of its table").hint("add table: NAME")
		}
		if !at.has("queue") {
			c.add(at.child("queue"), "a table in MySQL is described by a queue: its rows carry a status").
				hint("add queue: {key: ..., type: ..., payload: ..., status: ..., created: ..., claimed: ...}; docs/mysql.md says why there is no append-only table")
			return
		}
	}
	m.keys().checkQueue(c, at)
	if at.has("leader_lock") && at.sound("leader") && !m.Leader {
		c.add(at.child("leader_lock").key(), "has an effect for a leader only").hint("set leader: true, or remove the key")
	}
	if n := utf8.RuneCountInString(m.LeaderLock); n > 64 || n == 0 && at.has("leader_lock") {
		c.add(at.child("leader_lock"), "is a name of %d characters", n).hint("GET_LOCK takes 1 to 64")
	}
	if p := m.Preset(); p == nil || !severalTables(p) {
		m.Tables = Queues{} // so that the configuration can be printed and read back
	}
}

func inMySQL(p *layout.Preset) bool {
	return p.Queue != nil && p.Queue.Definitions[layout.MySQL].Columns != nil
}
