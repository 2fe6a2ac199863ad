package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
)

// MongoDB is collections in a MongoDB database whose documents carry a status.
type MongoDB struct {
	URL         SecretURL `yaml:"url" required:"true" doc:"mongodb:// or mongodb+srv:// URL of the server, the replica set or the cluster."`
	TLS         TLS       `yaml:"tls" doc:"Encryption of the connections. Default: the URL's parameter tls; without it TLS with a verified certificate, unless all servers are on this machine."`
	Database    string    `yaml:"database" doc:"Name of the database. Default: that of the URL."`
	TableSource `yaml:",inline"`

	_ form.Key `yaml:"layout" enum:"{layouts in mongodb}" default:"flowcatalyst" doc:"Layout of the documents, those of a known system. docs/layouts.md describes each, with its defaults."`

	_ form.Key `yaml:"tables" doc:"With layout {layouts with several tables}: names of its collections."`
	_ form.Key `yaml:"claims"`

	_ form.Key `yaml:"wake" enum:"poll|notify" doc:"How new documents are found: by polling alone, or also by a change stream, which needs a replica set or a cluster."`
	_ form.Key `yaml:"poll"`

	_ form.Key `yaml:"max_row" doc:"Largest payload that is delivered. A document with a larger one is dead, with its size in the error."`

	_ form.Key `yaml:"leader"`

	Retention *QueueRetention `yaml:"retention" doc:"Removes delivered documents that are old; {} is enough. Default: documents are never removed. See docs/retention.md."`
}

// Kind is "mongodb".
func (*MongoDB) Kind() string { return "mongodb" }

func (m *MongoDB) traits() traits { return traits{database: m.URL.Reveal() + " " + m.Database} }

func (m *MongoDB) check(c *form.Checker, at form.Location) {
	if at.Sound("url") && !m.URL.IsZero() {
		m.checkURL(c, at)
	}
	if at.Sound("layout") {
		m.checkQueue(c, at)
	}
}

// mongoURL has the parts of a URL of MongoDB, which may name several hosts.
type mongoURL struct {
	scheme   string
	hosts    []string
	database string
	query    url.Values
}

func parseMongoURL(text string) (u mongoURL) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return u
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, database, _ := strings.Cut(rest, "/")
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		hosts = hosts[i+1:]
	}
	u.scheme, u.hosts = scheme, strings.Split(hosts, ",")
	u.database, _ = url.PathUnescape(database)
	u.query, _ = url.ParseQuery(query) // what cannot be read is the driver's to report
	return u
}

// secured reports whether the URL decides about encryption.
func (m mongoURL) secured() bool {
	return m.scheme == "mongodb+srv" || m.query.Has("tls") || m.query.Has("ssl")
}

// away reports whether a host is on another machine.
func (m mongoURL) away() bool {
	return slices.ContainsFunc(m.hosts, func(host string) bool {
		return !loopback((&url.URL{Host: host}).Hostname())
	})
}

// In returns the name of the database.
func (m *MongoDB) In() string {
	if m.Database != "" {
		return m.Database
	}
	return parseMongoURL(m.URL.Reveal()).database
}

// Encrypted reports whether the section tls, or its default, encrypts connections. Otherwise the URL decides.
func (m *MongoDB) Encrypted() bool {
	if m.TLS.given() {
		return !m.TLS.Off()
	}
	u := parseMongoURL(m.URL.Reveal())
	return !u.secured() && u.away()
}

// checkURL checks the URL, the name of the database and the encryption.
func (m *MongoDB) checkURL(c *form.Checker, at form.Location) {
	where, text := at.Child("url"), m.URL.Reveal()
	if form.Unexpanded(text) {
		c.Add(where, "is a variable without braces, which is not replaced").Fix("write ${NAME}")
		return
	}
	u := parseMongoURL(text)
	if u.scheme != "mongodb" && u.scheme != "mongodb+srv" || u.hosts[0] == "" {
		c.Add(where, "is not a mongodb:// URL").Fix("for example mongodb://user@host:27017/database; special characters of a password are %%-encoded")
		return
	}
	if m.In() == "" {
		c.Add(where, "names no database").Fix("add database: NAME beside it, or write mongodb://host:27017/NAME")
	}
	switch {
	case m.TLS.given() && (u.query.Has("tls") || u.query.Has("ssl")):
		c.Add(at.Child("tls").Key(), "the parameter tls of the url and this section exclude each other").Fix("keep one of them")
	case !u.away():
	case m.TLS.Off(), u.query.Get("tls") == "false", u.query.Get("ssl") == "false":
		c.Warn(where, "the connection is not encrypted: messages can be read and changed on their way").Fix("remove the parameter: TLS with a check of the server's certificate is the default")
	case !u.secured() && !m.TLS.given():
		c.Note(where, "has no %s: TLS is used and the server's certificate checked", "tls").
			Fix("a server with a certificate of your own authority needs tls: {ca_file: ...} beside the url, one without TLS tls: {enabled: false}")
	}
}
