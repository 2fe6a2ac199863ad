package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/outriderhq/outrider/adapters/internal/httpx"
)

// dialer returns a dialer that checks every address with the guard.
func (c Config) dialer(guard httpx.Guard) *net.Dialer {
	return &net.Dialer{Timeout: c.ConnectTimeout, KeepAlive: 30 * time.Second, Control: guard.Control}
}

// transport returns a transport whose connections are bounded by the requests
// in flight and by nothing else: with a bound of its own, routes that share the
// destination would wait for each other's. It knows no proxy, which would
// resolve names itself and dial what it likes.
func (c Config) transport(dialer *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    c.ConnectTimeout,
		TLSClientConfig:        c.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		HTTP2:                  httpx.HTTP2(c.Timeout),
		MaxIdleConnsPerHost:    math.MaxInt32,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // answers are short and read as they are
	}
}

// Check connects to the host of the URL, which all messages share, and sends
// nothing.
func (d *Destination) Check(ctx context.Context) error {
	base := d.target.Base()
	port := base.Port()
	if port == "" {
		port = base.Scheme // "https" is the name of port 443
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	conn, err := d.dialer.DialContext(ctx, "tcp", net.JoinHostPort(base.Hostname(), port))
	if err != nil {
		return fmt.Errorf("webhook: no connection to %s: %w", base, err)
	}
	if base.Scheme == "https" {
		secured := tls.Client(conn, tlsFor(d.cfg.TLS, base.Hostname()))
		err = secured.HandshakeContext(ctx)
		conn = secured
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("webhook: no secure connection to %s: %w", base, err)
	}
	return nil
}

// tlsFor returns the configuration of a connection to a host.
func tlsFor(cfg *tls.Config, host string) *tls.Config {
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	return cfg
}
