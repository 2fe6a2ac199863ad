package outrider

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/config"
)

// newTLS reads the certificates of a section tls; nil when it is not wanted.
func newTLS(t config.TLS, wanted bool) (*tls.Config, error) {
	if !wanted {
		return nil, nil
	}
	out := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: t.InsecureSkipVerify} //nolint:gosec // the user's explicit choice, documented as for tests
	if t.CAFile != "" {
		pem, err := os.ReadFile(string(t.CAFile))
		if err != nil {
			return nil, fmt.Errorf("tls: ca_file %s cannot be read: %w", t.CAFile, withoutPath(err))
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls: ca_file %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(string(t.CertFile), string(t.KeyFile))
		if err != nil {
			return nil, fmt.Errorf("tls: cert_file %s and key_file %s: %w", t.CertFile, t.KeyFile, withoutPath(err))
		}
		out.Certificates = []tls.Certificate{cert}
	}
	return out, nil
}

// withoutPath leaves out the path of a file, which may be a secret that was
// pasted into the wrong key.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// postgresTLS says how connections to a source's or a state store's database are
// encrypted; where the section says nothing, the URL decides.
func postgresTLS(t config.TLS) (postgres.TLS, error) {
	c, err := newTLS(t, t.On())
	return postgres.TLS{Config: c, Off: t.Off()}, err
}

// stateTLS is that of the state store at a location: its own, or that of the
// source that it is beside.
func stateTLS(cfg *Config, location string) (postgres.TLS, error) {
	if !cfg.State.URL.IsZero() {
		return postgresTLS(cfg.State.TLS)
	}
	for _, name := range sortedNames(cfg.Sources) {
		if s, ok := cfg.Sources[name].(*config.Postgres); ok && s.URL.Reveal() == location {
			return postgresTLS(s.TLS)
		}
	}
	return postgres.TLS{}, nil
}
