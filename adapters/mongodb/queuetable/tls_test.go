package queuetable

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestConnectionsAreEncryptedAndTheServerIsChecked(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	url := testenv.StartSecureMongoDB(t, authority) + "/?serverSelectionTimeoutMS=6000"
	l := *layout.FlowCatalyst().Queue
	trusted := &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
	if _, err := Init(t.Context(), Connection{URL: url, TLS: trusted, Database: "secured"}, l, l.Tables...); err != nil {
		t.Fatalf("with the authority: %v", err)
	}
	other := trusted.Clone()
	other.ServerName = "elsewhere.example.com"
	for name, test := range map[string]struct {
		with *tls.Config
		want string
	}{
		"the authority":         {trusted, ""},
		"no authority":          {&tls.Config{MinVersion: tls.VersionTLS12}, "tls: {ca_file: ...}"},
		"another server's name": {other, "server_name"},
		"no TLS":                {nil, "tls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, err := New(Config{Connection: Connection{URL: url, TLS: test.with, Database: "secured"}, Tables: l.Tables, Layout: l})
			must(t, err)
			err = q.Check(t.Context())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			must(t, q.Close())
		})
	}
}

func TestWhyAConnectionIsNotMadeIsSaidWithAFixAndNoPassword(t *testing.T) {
	t.Parallel()
	const want = "start the server, or correct host and port of the url"
	l := *layout.FlowCatalyst().Queue
	url := "mongodb://user:hidden@" + testenv.Refused(t) + "/?serverSelectionTimeoutMS=1000"
	q, err := New(Config{Connection: Connection{URL: url, Database: "x"}, Tables: l.Tables, Layout: l})
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	if err := q.Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v, want %q", err, want)
	}
	if f := q.Examine(t.Context()); len(f) != 1 || f[0].Level != adapters.LevelBroken || f[0].Fix != want {
		t.Errorf("doctor says %+v, want the fix %q", f, want)
	}
}
