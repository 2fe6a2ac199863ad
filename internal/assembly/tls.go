package assembly

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

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
