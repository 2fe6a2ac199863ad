package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
	"github.com/outriderhq/outrider/internal/guard"
)

// TLS configures an encrypted connection.
type TLS struct {
	Enabled            *bool  `yaml:"enabled" doc:"Whether to use TLS. Default: true if another key of the section is set, otherwise as the section describes. false sends passwords, tokens and messages unencrypted, and the log warns at startup."`
	CAFile             File   `yaml:"ca_file" doc:"File with the certificates to trust, PEM. Default: the system's."`
	CertFile           File   `yaml:"cert_file" doc:"File with the client's certificate, PEM."`
	KeyFile            File   `yaml:"key_file" doc:"File with the client's private key, PEM."`
	ServerName         string `yaml:"server_name" doc:"Expected name in the server's certificate. Default: the host of the connection."`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" default:"false" doc:"Accept any certificate; for tests only."`
}

// Off reports whether TLS was turned off in so many words.
func (t *TLS) Off() bool { return t.Enabled != nil && !*t.Enabled }

// On reports whether TLS was asked for, by enabled or by another key.
func (t *TLS) On() bool { return t.on(false) }

// on reports whether TLS is used where the default is as given.
func (t *TLS) on(byDefault bool) bool {
	if t.Enabled != nil {
		return *t.Enabled
	}
	return byDefault || t.detailed()
}

// given reports whether a key of the section is given.
func (t *TLS) given() bool { return t.Enabled != nil || t.detailed() }

// detailed reports whether a key other than enabled is given.
func (t *TLS) detailed() bool {
	return t.CAFile != "" || t.CertFile != "" || t.KeyFile != "" || t.ServerName != "" || t.InsecureSkipVerify
}

func (t *TLS) check(c *form.Checker, at form.Location) {
	if !at.Sound("enabled", "cert_file", "key_file") {
		return
	}
	if t.Off() {
		for _, key := range []string{"ca_file", "cert_file", "key_file", "server_name", "insecure_skip_verify"} {
			if at.Has(key) && (key != "insecure_skip_verify" || t.InsecureSkipVerify) {
				c.Add(at.Child(key), "has no effect while TLS is off").Fix("remove enabled: false, or remove the key")
			}
		}
		return
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		c.Add(at, "cert_file and key_file belong together").Fix("give both, or neither")
	}
	if t.InsecureSkipVerify {
		c.Warn(at.Child("insecure_skip_verify"), "anyone between here and the server can read and change messages").
			Fix("trust the server's certificate with ca_file instead")
	}
	if t.KeyFile != "" {
		c.WarnReadable(at.Child("key_file"), string(t.KeyFile))
	}
}

// modes are the values of sslmode, and what less than verify-full leaves open.
var modes = map[string]string{
	"disable":     "leaves the connection unencrypted: messages can be read and changed on their way",
	"allow":       "encrypts only if the server insists, and accepts any server that answers",
	"prefer":      "encrypts only if the server can, and accepts any server that answers",
	"require":     "encrypts, but accepts any server that answers",
	"verify-ca":   "accepts every certificate of the authority, whatever name is in it",
	"verify-full": "",
}

// parameters of a PostgreSQL URL that the section tls replaces.
var sslParameters = []string{"sslmode", "sslrootcert", "sslcert", "sslkey"}

// postgresTLS checks the encryption of a PostgreSQL URL; at is the mapping with url and tls.
func postgresTLS(c *form.Checker, at form.Location, u SecretURL, t *TLS) {
	parsed, err := url.Parse(u.Reveal())
	if err != nil || u.IsZero() {
		return // reported
	}
	where, query := at.Child("url"), parsed.Query()
	mode := query.Get("sslmode")
	if t.given() {
		for _, p := range sslParameters {
			if query.Get(p) != "" {
				c.Add(at.Child("tls").Key(), "the url has the parameter %s, and tls says it too", p).Fix("keep one of them")
				return
			}
		}
	}
	weakness, known := modes[mode]
	away := slices.ContainsFunc(hostsOf(parsed), func(h string) bool { return !loopback(h) })
	switch {
	case mode != "" && !known:
		c.Add(where, "has an sslmode that does not exist").Fix("use verify-full, or one of disable, allow, prefer, require, verify-ca")
	case !away:
	case t.Off():
		c.Warn(at.Child("tls").Child("enabled"), "%s", modes["disable"]).Fix("remove it: TLS with a check of the server's certificate is the default")
	case t.given():
	case mode == "":
		c.Note(where, "has no sslmode: TLS is used and the server's certificate checked, as with sslmode=verify-full").
			Fix("a server with a certificate of your own authority needs tls: {ca_file: ...} beside the url, one without TLS tls: {enabled: false}")
	case weakness != "":
		c.Warn(where, "sslmode=%s %s", mode, weakness).Fix("use sslmode=verify-full, and sslrootcert for an authority of your own")
	}
}

// httpTLS checks the encryption of requests to a URL; secret reports whether they
// carry a token or headers.
func httpTLS(c *form.Checker, at form.Location, u *url.URL, t *TLS, secret bool) {
	switch {
	case u.Scheme == "https":
		if t.Off() {
			c.Add(at.Child("tls").Child("enabled"), "the url is https, which is TLS").Fix("remove enabled, or use http")
		}
	case t.On():
		c.Add(at.Child("tls").Key(), "the url is http, which is without TLS").Fix("use https, or remove tls")
	case !secret || loopback(u.Hostname()):
	case t.Off():
		c.Warn(at.Child("url"), "sends its token or headers in the clear").Fix("use https")
	default:
		c.Add(at.Child("url"), "would send its token or headers in the clear to another machine").
			Fix("use https, or accept it with tls: {enabled: false} in the destination")
	}
}

// networks refuses texts that are not networks.
func networks(c *form.Checker, at form.Location, list []string) {
	for i, text := range list {
		if p, err := netip.ParsePrefix(text); err != nil || p.Addr().Is4In6() {
			c.Add(at.Item(i), "is not a network").Fix("for example 10.1.0.0/16 or fd00::/8; one address is 10.1.2.3/32")
		}
	}
}

// reachable refuses a literal address that a relay would refuse to send to. Names are checked when they are resolved.
func reachable(c *form.Checker, at form.Location, u *url.URL, g guard.Guard, allowed, denied []string) {
	for _, list := range []struct {
		texts []string
		into  *[]netip.Prefix
	}{{allowed, &g.Allowed}, {denied, &g.Denied}} {
		for _, text := range list.texts {
			if p, err := netip.ParsePrefix(text); err == nil { // otherwise it has been refused
				*list.into = append(*list.into, p)
			}
		}
	}
	if err := g.CheckHost(u.Hostname()); err != nil {
		text, hint, _ := strings.Cut(err.Error(), "; ")
		c.Add(at, "%s", text).Fix("%s", cmp.Or(hint, "use another address"))
	}
}

// hostsOf lists the hosts of a PostgreSQL URL; none for the local socket.
func hostsOf(u *url.URL) []string {
	text := u.Host
	if given := u.Query().Get("host"); given != "" {
		text = given
	}
	var hosts []string
	for part := range strings.SplitSeq(text, ",") {
		if host := hostOf(part); host != "" && !strings.HasPrefix(host, "/") {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// hostOf is the host of an address, with or without a port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// loopback reports whether the host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || ip != nil && ip.IsLoopback()
}
