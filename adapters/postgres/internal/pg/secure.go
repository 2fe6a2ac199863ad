package pg

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// TLS says how connections by URL are encrypted. The zero value does what the
// URL's parameters sslmode, sslrootcert, sslcert and sslkey say. A URL without
// sslmode means verify-full for every host that is not this machine: pgx's own
// default, prefer, gives the password to any server that answers. The environment
// variable PGSSLMODE does not change that.
//
// Passwords in cleartext and as MD5 are given to a server off this machine over
// TLS only, unless the URL's parameter require_auth says what may be given.
type TLS struct {
	// Config encrypts every connection, to this machine too. Its ServerName is
	// the host that is dialled unless it is set. The URL must then have no sslmode.
	Config *tls.Config

	// Off leaves every connection unencrypted. The URL must then have no sslmode.
	Off bool
}

// set reports whether the URL's parameters are not to decide.
func (t TLS) set() bool { return t.Off || t.Config != nil }

// encryptedOnly is what may be asked for over TLS only, in the words of libpq's
// require_auth.
const encryptedOnly = "!password,!md5"

var errTwoModes = errors.New("the URL has an sslmode, and TLS is configured beside it; keep one of them")

// secure makes connections of a parsed URL as safe as TLS and the URL say.
func (t TLS) secure(cfg *pgconn.Config, url string) error {
	explicit := hasMode(url)
	if explicit && t.set() {
		return errTwoModes
	}
	if !explicit {
		t.encrypt(cfg)
	}
	if cfg.RequireAuth == "" && slices.ContainsFunc(attemptsOf(cfg), remote) {
		cfg.AfterNetConnect = guardPassword
	}
	return nil
}

// encrypt replaces what pgx made of the default of sslmode.
func (t TLS) encrypt(cfg *pgconn.Config) {
	var out []*pgconn.FallbackConfig
	for _, a := range attemptsOf(cfg) {
		seen := slices.ContainsFunc(out, func(o *pgconn.FallbackConfig) bool { return o.Host == a.Host && o.Port == a.Port })
		socket, _ := pgconn.NetworkAddress(a.Host, a.Port)
		switch {
		case !t.set() && !remote(a):
			out = append(out, a) // pgx's attempts, with and without TLS
			continue
		case seen:
			continue // the second attempt of prefer, which is without TLS
		case t.Off || socket == "unix":
			a.TLSConfig = nil
		case t.Config != nil:
			a.TLSConfig = forHost(t.Config, a)
		default:
			a.TLSConfig = verified(a)
		}
		out = append(out, a)
	}
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = out[0].Host, out[0].Port, out[0].TLSConfig, out[1:]
}

// attemptsOf lists what pgx tries, in order.
func attemptsOf(cfg *pgconn.Config) []*pgconn.FallbackConfig {
	first := &pgconn.FallbackConfig{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}
	return append([]*pgconn.FallbackConfig{first}, cfg.Fallbacks...)
}

// forHost is a configuration for one host.
func forHost(c *tls.Config, a *pgconn.FallbackConfig) *tls.Config {
	c = c.Clone()
	if c.ServerName == "" {
		c.ServerName = a.Host
	}
	if a.TLSConfig != nil {
		c.NextProtos = a.TLSConfig.NextProtos // as the URL's sslnegotiation requires them
	}
	return c
}

// verified is what sslmode=verify-full makes, with the certificates that the
// URL's other parameters name.
func verified(a *pgconn.FallbackConfig) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.TLSConfig != nil {
		c = a.TLSConfig.Clone()
	}
	c.InsecureSkipVerify, c.VerifyPeerCertificate, c.ServerName = false, nil, a.Host
	return c
}

// remote reports whether a host is not this machine by its name.
func remote(a *pgconn.FallbackConfig) bool {
	if network, _ := pgconn.NetworkAddress(a.Host, a.Port); network == "unix" {
		return false
	}
	addr, err := netip.ParseAddr(a.Host)
	return !strings.EqualFold(strings.TrimSuffix(a.Host, "."), "localhost") && (err != nil || !addr.Unmap().IsLoopback())
}

// guardPassword refuses, on a connection without TLS, to answer a server that
// asks for the password itself. pgx hands over a copy of the configuration that
// belongs to this connection attempt and reads RequireAuth after this.
func guardPassword(_ context.Context, cfg *pgconn.Config, conn net.Conn) (net.Conn, error) {
	cfg.RequireAuth = ""
	if _, encrypted := conn.(*tls.Conn); !encrypted {
		cfg.RequireAuth = encryptedOnly
	}
	return conn, nil
}

var (
	quotedValue = regexp.MustCompile(`'(?:[^'\\]|\\.)*'`)
	modeOfDSN   = regexp.MustCompile(`(?:^|\s)sslmode\s*=\s*\S`)
)

// ownMode is a URL with pgx's default of sslmode written out where it has none:
// PGSSLMODE=disable would have pgx forget the certificates that the URL names.
func ownMode(text string) string {
	switch {
	case hasMode(text):
		return text
	case !isURL(text):
		return text + " sslmode=prefer"
	}
	text, _, _ = strings.Cut(text, "#")
	if strings.Contains(text, "?") {
		return text + "&sslmode=prefer"
	}
	return text + "?sslmode=prefer"
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// hasMode reports whether a URL, or a DSN of the form host=... user=..., names
// an sslmode.
func hasMode(text string) bool {
	if !isURL(text) {
		return modeOfDSN.MatchString(quotedValue.ReplaceAllString(text, "x"))
	}
	text, _, _ = strings.Cut(text, "#") // as URLs are parsed
	_, query, _ := strings.Cut(text, "?")
	values, _ := url.ParseQuery(query) // what cannot be parsed is passed over by pgx likewise
	return values.Get("sslmode") != ""
}

// tlsFix returns the fix of a connection that failed for its encryption; empty
// when that was not the reason.
func tlsFix(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "require_auth check failed"):
		return "the server asks for the password itself, or its MD5, over a connection without TLS: use TLS, or scram-sha-256 on the server " +
			"(password_encryption and pg_hba.conf), or allow it with require_auth=password or md5 in the URL"
	case strings.Contains(text, "server refused TLS connection"):
		return "the server has no TLS, which the connection must have: turn it on there (ssl = on), " +
			"or accept an unencrypted connection with `tls: {enabled: false}` beside the url in the configuration, or sslmode=disable in the URL"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is checked: name the authority that signed it with `tls: {ca_file: ...}` beside the url in the configuration " +
			"(or sslrootcert in the URL), and the name in it, where it is not the host's, with `server_name`"
	}
	return ""
}
