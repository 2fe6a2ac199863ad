package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

// examined returns the findings of a destination, one line each.
func examined(t *testing.T, cfg Config) string {
	t.Helper()
	cfg.Secrets = []string{secret}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	var lines []string
	for _, f := range d.Examine(t.Context()) {
		lines = append(lines, f.Level.String()+" "+f.Subject+": "+f.Text+" -> "+f.Fix)
		if f.Level == adapters.LevelBroken && f.Fix == "" {
			t.Errorf("%s is broken and has no fix", f.Subject)
		}
	}
	return strings.Join(lines, "\n")
}

func TestExamineLooksAndSendsNoEvent(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []*http.Request
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r)
		w.WriteHeader(http.StatusMethodNotAllowed)
	}))
	defer receiver.Close()
	roots := x509.NewCertPool()
	roots.AddCert(receiver.Certificate())
	trusting := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	nobody := "http://" + testenv.Refused(t)
	for name, c := range map[string]struct {
		cfg  Config
		want []string
	}{
		"in order": {Config{URL: receiver.URL + "/hook?token=CANARY", TLS: trusting, AllowNetworks: loopback},
			[]string{"ok connection to", "certificate valid until", "ok receiver: OPTIONS is answered with 405", "only says that something answers"}},
		"by message": {Config{URL: receiver.URL + "/{{.Type}}", TLS: trusting, AllowNetworks: loopback}, []string{"unknown url: the URL depends on the message"}},
		"unknown authority": {Config{URL: receiver.URL, AllowNetworks: loopback},
			[]string{"broken TLS of", "unknown authority", "ca_file"}},
		"nobody listens": {Config{URL: nobody, AllowNetworks: loopback}, []string{"broken connection to", "refused", "that the server runs"}},
		"a private address": {Config{URL: strings.Replace(receiver.URL, "127.0.0.1", "localhost", 1)},
			[]string{"broken DNS of localhost: ", "loopback address", "broken connection to localhost", "-> if that is where they should go, add its network to allow_networks"}},
	} {
		got := examined(t, c.cfg)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing:\n%s", name, want, got)
			}
		}
		if strings.Contains(got, "CANARY") {
			t.Errorf("%s: a secret is shown:\n%s", name, got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 2 {
		t.Errorf("the receiver was asked %d times, want 2", len(asked))
	}
	for _, r := range asked {
		if r.Method != http.MethodOptions || r.ContentLength != 0 || r.Header.Get(headerSignature) != "" || r.Header.Get("Authorization") != "" {
			t.Errorf("it was sent %s with %v", r.Method, r.Header)
		}
	}
}
