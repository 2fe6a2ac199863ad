package my

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// TLS says how connections by URL are encrypted. The zero value does what the
// URL's parameter tls says; a URL without it means TLS with a check of the server's certificate for
// every host that is not this machine, and none for this machine and Unix sockets. A password is never sent in
// cleartext over a connection without TLS.
type TLS struct {
	// Config encrypts every connection by TCP, to this machine too. Its ServerName is
	// the host that is dialled unless it is set. The URL must then have no parameter tls.
	Config *tls.Config

	// Off leaves every connection unencrypted. The URL must then have no parameter tls.
	Off bool
}

var errTwoModes = errors.New("the URL has a parameter tls, and TLS is configured beside it; keep one of them")

// secure makes connections as safe as TLS and the URL's parameter say.
func (t TLS) secure(cfg *mysql.Config, mode, host string) error {
	given := t.Off || t.Config != nil
	if given && mode != "" {
		return errTwoModes
	}
	if cfg.Net == "unix" {
		return nil
	}
	verified := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	switch mode {
	case "":
		switch {
		case t.Config != nil:
			if cfg.TLS = t.Config.Clone(); cfg.TLS.ServerName == "" {
				cfg.TLS.ServerName = host
			}
		case !t.Off && Remote(host):
			cfg.TLS = verified
		}
	case "true":
		cfg.TLS = verified
	case "skip-verify":
		verified.InsecureSkipVerify = true
		cfg.TLS = verified
	case "false":
	default:
		return fmt.Errorf("the URL's parameter tls is %q; use true, skip-verify or false", mode)
	}
	return nil
}

// Remote reports whether a host is not this machine by its name.
func Remote(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host != "" && !strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") && (err != nil || !addr.Unmap().IsLoopback())
}
