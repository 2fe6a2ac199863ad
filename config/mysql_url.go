package config

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// isMySQL reports whether a URL leads to MariaDB or MySQL.
func isMySQL(u SecretURL) bool { return slices.Contains([]string{"mysql", "mariadb"}, u.Scheme()) }

// mysqlURL checks a mysql:// URL.
func (c *checker) mysqlURL(at place, u SecretURL) {
	if u.IsZero() {
		return // reported as missing
	}
	if unexpanded.MatchString(u.Reveal()) {
		c.add(at, "is a variable without braces, which is not replaced").hint("write ${NAME}")
		return
	}
	if strings.Contains(u.Reveal(), "#") {
		c.add(at, "has a #, which ends a URL").hint("write %%23 instead of # in a password")
		return
	}
	parsed, err := url.Parse(u.Reveal())
	if err != nil || !isMySQL(u) || strings.Contains(parsed.Host, "@") || strings.Contains(parsed.Path, "@") {
		c.add(at, "is not a mysql:// URL").hint("for example mysql://user@host:3306/database; special characters of a password are %%-encoded")
		return
	}
	if n, err := strconv.Atoi(cmp.Or(parsed.Port(), "3306")); err != nil || n < 1 || n > 65535 {
		c.add(at, "has an invalid port"). // which is not shown: it may be a part of a password
							hint("ports are numbers from 1 to 65535, and special characters of a password are %%-encoded")
		return
	}
	if strings.Trim(parsed.Path, "/") == "" {
		c.add(at, "names no database").hint("for example mysql://user@host:3306/database")
	}
	for name := range parsed.Query() {
		if !slices.Contains([]string{"tls", "connect_timeout", "socket"}, name) {
			c.add(at, "has the unknown parameter %s", shorten(name)).hint("known parameters: tls, connect_timeout, socket")
		}
	}
}

// mysqlTLS looks at how the connections of a mysql:// URL are secured: at
// is the mapping that holds url and tls.
func (c *checker) mysqlTLS(at place, u SecretURL, t *TLS) {
	parsed, err := url.Parse(u.Reveal())
	if err != nil || u.IsZero() {
		return // reported
	}
	where, mode := at.child("url"), parsed.Query().Get("tls")
	switch {
	case t.given() && mode != "":
		c.add(at.child("tls").key(), "the parameter tls of the url and this section exclude each other").hint("keep one of them")
	case !slices.Contains([]string{"", "true", "false", "skip-verify"}, mode):
		c.add(where, "has a value of tls that does not exist").hint("use true, or one of skip-verify, false")
	case parsed.Query().Get("socket") != "" || loopback(parsed.Hostname()):
	case t.Off():
		c.warn(at.child("tls").child("enabled"), "%s", modes["disable"]).hint("remove it: TLS with a check of the server's certificate is the default")
	case mode == "false":
		c.warn(where, "tls=false %s", modes["disable"]).hint("remove it: TLS with a check of the server's certificate is the default")
	case mode == "skip-verify":
		c.warn(where, "tls=skip-verify %s", modes["require"]).hint("remove it, and name an authority of your own with tls: {ca_file: ...} beside the url")
	case mode == "" && !t.given():
		c.note(where, "does not mention TLS: it is used, and the server's certificate checked").
			hint("a server with a certificate of your own authority needs tls: {ca_file: ...} beside the url, one without TLS tls: {enabled: false}")
	}
}
