// Package endpoint examines what every network destination has: an address that
// is dialled, and a certificate that expires. It sends nothing that a receiver
// would take for a message.
package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// expiring is how many days before its end a certificate is reported.
const expiring = 21 * 24 * time.Hour

// Dial opens a connection to host:port and closes it; with a configuration it
// does a TLS handshake. Findings are about the connection and the certificate.
func Dial(ctx context.Context, address string, config *tls.Config, timeout time.Duration) []adapters.Finding {
	return DialBy(ctx, new(net.Dialer), address, config, timeout)
}

// DialAny is [Dial] for each server of a cluster, which listen on the port given where they name none. One that answers is enough to
// find the others, so the rest are only warned about.
func DialAny(ctx context.Context, addresses []string, port string, config *tls.Config, timeout time.Duration) []adapters.Finding {
	var f []adapters.Finding
	reached := false
	for _, address := range addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), port)
		}
		found := Dial(ctx, address, config, timeout)
		reached = reached || found[len(found)-1].Level != adapters.LevelBroken
		f = append(f, found...)
	}
	for i := range f {
		if reached && f[i].Level == adapters.LevelBroken {
			f[i].Level = adapters.LevelWarning
		}
	}
	return f
}

// DialBy is [Dial] with the dialer that the destination uses. Its advice
// about a refusal of its own is behind a semicolon.
func DialBy(ctx context.Context, dialer *net.Dialer, address string, config *tls.Config, timeout time.Duration) []adapters.Finding {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		f := adapters.FindingsOf("connection to "+address, err)
		if f[0].Fix == "" {
			f[0].Fix = fixOf(err)
		}
		return f
	}
	f := []adapters.Finding{{Subject: "connection to " + address, Text: "accepted by " + conn.RemoteAddr().String()}}
	if config == nil {
		_ = conn.Close() // nothing was sent
		return f
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secured := tls.Client(conn, config)
	defer func() { _ = secured.Close() }() // nothing was sent
	if err := secured.HandshakeContext(ctx); err != nil {
		return append(f, adapters.Finding{Level: adapters.LevelBroken, Subject: "TLS of " + address, Text: err.Error(),
			Fix: "renew the server's certificate, correct the host name, or name its authority with tls: {ca_file: ...}"})
	}
	return append(f, Certificate(address, secured.ConnectionState(), time.Now()))
}

// patience bounds a request that has no effect.
const patience = 10 * time.Second

// Ask sends OPTIONS to a URL, without credentials and without a body. The answer
// is informative only: many receivers know POST and nothing else. Hide makes the
// text of an error without secrets.
func Ask(ctx context.Context, via http.RoundTripper, url string, hide func(error) string, timeout time.Duration) adapters.Finding {
	const subject = "receiver"
	ctx, cancel := context.WithTimeout(ctx, min(timeout, patience))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, url, http.NoBody)
	if err != nil {
		return adapters.Finding{Level: adapters.LevelBroken, Subject: "url", Text: "no request can be made of it", Fix: "correct the url"}
	}
	resp, err := via.RoundTrip(req)
	if err != nil {
		return adapters.Finding{Level: adapters.LevelWarning, Subject: subject,
			Text: "does not answer OPTIONS: " + hide(err), Fix: "check the receiver's log; some receivers answer only POST"}
	}
	_ = resp.Body.Close() // only the status matters
	text := fmt.Sprintf("OPTIONS is answered with %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return adapters.Finding{Level: adapters.LevelWarning, Subject: subject, Text: text, Fix: "the receiver behind the gateway does not run"}
	case http.StatusOK, http.StatusNoContent:
	default:
		text += ", which only says that something answers"
	}
	return adapters.Finding{Subject: subject, Text: text}
}

// Certificate judges how long the first certificate of a chain is still valid.
func Certificate(address string, state tls.ConnectionState, now time.Time) adapters.Finding {
	f := adapters.Finding{Subject: "TLS of " + address}
	if len(state.PeerCertificates) == 0 {
		f.Level, f.Text = adapters.LevelUnknown, "the server showed no certificate"
		return f
	}
	first := state.PeerCertificates[0].NotAfter
	for _, c := range state.PeerCertificates {
		if c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	left := first.Sub(now)
	f.Text = fmt.Sprintf("%s, certificate valid until %s, %d days", tls.VersionName(state.Version), first.UTC().Format(time.DateOnly), int(left.Hours()/24))
	switch {
	case left <= 0: // only with insecure_skip_verify
		f.Level, f.Fix = adapters.LevelBroken, "renew the server's certificate"
	case left < expiring:
		f.Level, f.Fix = adapters.LevelWarning, "renew the server's certificate"
	}
	return f
}

func fixOf(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return "correct the host's name, or the name server that this host asks"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "nothing answers: look for a firewall in between"
	}
	return "check host and port, and that the server runs"
}
