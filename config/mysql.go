package config

import (
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters/layout"
)

// MySQL is a queue table in a database of MariaDB or MySQL. There are no append-only ones: see package adapters/mysql.
type MySQL struct {
	URL    SecretURL `yaml:"url" required:"true" doc:"mysql:// or mariadb:// URL of the primary server, with the database. A connection may take 10 s to open, or the seconds of its parameter connect_timeout."`
	TLS    TLS       `yaml:"tls" doc:"Encryption of the connections. Default: what the URL's parameter tls says; without it TLS with a check of the server's certificate, unless the server is on this machine or reached by a Unix socket."`
	Layout string    `yaml:"layout" enum:"{layouts in MySQL}|custom" required:"true" doc:"Shape of the table, whose rows carry a status: {what layouts in MySQL are}, or one described here by queue (docs/mysql.md). Layouts that have a name have their own defaults (docs/layouts.md)."`
	Table  Table     `yaml:"table" doc:"Name of the table, with its database where it is another one than the URL's. With layouts that have a name the default is that of the original; with layout custom it is required."`

	Tables Queues `yaml:"tables" doc:"With layout {layouts with several tables}: the names of its tables."`
	Queue  *Queue `yaml:"queue" doc:"With layout custom: in which column what is found. Times are TIMESTAMP or DATETIME, which is read as UTC, best with (6)."`
	Claims Claims `yaml:"claims" doc:"What is claimed."`

	Delivered string `yaml:"delivered" enum:"keep|delete" default:"keep" doc:"Whether a row that was delivered is kept, with its status, or deleted."`

	Wake string `yaml:"wake" enum:"poll" default:"poll" doc:"How new rows are noticed. MariaDB and MySQL cannot notify."`
	Poll Poll   `yaml:"poll" doc:"How often and how much is read. batch is 500 by default."`

	MaxRow Size `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest payload that is read. A row with a larger one is dead with an error that says its size, and is not loaded; neither is one with more than 1,000 headers or tags, 1 MiB of them, or names (id, type, group, tenant and so on) of more than 1 KiB. A message in memory may come on top of memory, so it should be less than that."`

	Leader bool `yaml:"leader" default:"false" doc:"One instance at a time works all routes of this source, the others stand by. By default lanes are spread over all instances; with layout {layouts with a leader} the default is true. See docs/instances.md."`

	LeaderLock string `yaml:"leader_lock" doc:"With leader: true: name of a lock of the source's server (GET_LOCK), at most 64 characters, which the leader holds while it works. Whoever else takes the same name there stands by for Outrider, and Outrider for them. Default: none."`
}

// Kind is "mysql".
func (*MySQL) Kind() string { return "mysql" }
func (*MySQL) log() bool    { return false }

// Preset is the layout's preset; nil: the table is described in the file.
func (s *MySQL) Preset() *layout.Preset { return layout.Find(s.Layout) }

// Deletes reports whether rows that were delivered are deleted.
func (s *MySQL) Deletes() bool { return s.Delivered == deleted }

func (s *MySQL) keys() *tableKeys {
	return &tableKeys{s.URL.Reveal(), s.Layout, &s.Table, &s.Tables, s.Queue, &s.Poll, &s.Claims, &s.Delivered, &s.Leader}
}

func (s *MySQL) check(c *checker, at place) {
	c.mysqlURL(at.child("url"), s.URL)
	c.mysqlTLS(at, s.URL, &s.TLS)
	if !at.sound("layout") {
		return
	}
	if s.Layout == custom {
		if !at.has("table") {
			c.add(at.child("table"), "a custom layout needs the name of its table").hint("add table: NAME")
		}
		if !at.has("queue") {
			c.add(at.child("queue"), "a table in MySQL is described by a queue: its rows carry a status").
				hint("add queue: {key: ..., type: ..., payload: ..., status: ..., created: ..., claimed: ...}; docs/mysql.md says why there is no append-only table")
			return
		}
	}
	s.keys().checkQueue(c, at)
	if at.has("leader_lock") && at.sound("leader") && !s.Leader {
		c.add(at.child("leader_lock").key(), "has a meaning for a leader only").hint("set leader: true, or remove the key")
	}
	if n := utf8.RuneCountInString(s.LeaderLock); n > 64 || n == 0 && at.has("leader_lock") {
		c.add(at.child("leader_lock"), "is a name of %d characters", n).hint("GET_LOCK takes 1 to 64")
	}
	if p := s.Preset(); p == nil || !severalTables(p) {
		s.Tables = Queues{} // so that the configuration can be printed and read back
	}
}

func inMySQL(p *layout.Preset) bool {
	return p.Queue != nil && p.Queue.Definitions[layout.MySQL].Columns != nil
}
