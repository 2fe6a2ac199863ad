package assembly

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
)

// destination makes the destination that a configuration describes.
func destination(t *testing.T, text string) (adapters.Destination, error) {
	t.Helper()
	cfg, err := config.Parse("t.yaml", fmt.Appendf(nil,
		"sources: {app: {type: sqlite, path: a.db}}\ndestinations:\n  out: {%s}\nroutes: {all: {from: app, to: out}}\n", text), nil)
	if err != nil {
		return nil, err
	}
	d, err := NewBuilder(cfg, OptionsOf([]Option{quiet})).Destination("out").Open()
	if err == nil {
		t.Cleanup(func() { _ = d.Close() })
	}
	return d, err
}

// quiet has nothing logged.
func quiet(o *Options) { o.Logger = slog.New(slog.DiscardHandler) }

// deliver sends one message and returns the error of that, or of the settings.
func deliver(t *testing.T, text string) error {
	t.Helper()
	d, err := destination(t, text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	msg := message.NewMessage("1", []byte(`{"a":1}`))
	address, err := d.Address(msg)
	if err != nil {
		t.Fatal(err)
	}
	if errs := d.Deliver(ctx, address, []*message.Message{msg}); errs != nil {
		return errs[0]
	}
	return nil
}

// anyError is for refusals by the server: with TLS 1.3 they may arrive after the
// request was written, or break it off.
const anyError = "any error"

// compareDeliveries delivers by each destination; the empty text stands for
// success, any other for a part of the error.
func compareDeliveries(t *testing.T, tests map[string]string) {
	t.Helper()
	for text, want := range tests {
		err := deliver(t, text)
		if (err == nil) != (want == "") || err != nil && want != anyError && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("shows a secret: %v", err)
		}
	}
}

// A token and a payload are sent to a server only whose certificate an authority
// that is trusted has signed; a client's certificate is shown.
func TestG12_HTTPOverTLS(t *testing.T) {
	t.Parallel()
	authority, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	client, stranger := authority.Issue("client"), other.Issue("client")
	reached := map[string]string{} // paths by who asked
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached[r.TLS.PeerCertificates[0].Subject.CommonName] = r.URL.Path
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
		Certificates: []tls.Certificate{authority.Issue("127.0.0.1", "api.example.com").TLS}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	files := func(ca string, c testenv.Certificate, more string) string {
		return fmt.Sprintf("tls: {ca_file: %q, cert_file: %q, key_file: %q%s}", ca, c.CertFile, c.KeyFile, more)
	}
	for kind, start := range map[string]string{
		"http":    fmt.Sprintf("type: http, url: '%s/http', token: hunter2, ", server.URL),
		"webhook": fmt.Sprintf("type: webhook, url: '%s/webhook', secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], allow_private: true, ", server.URL),
	} {
		compareDeliveries(t, map[string]string{
			start + files(authority.File, client, ""):                                     "",
			start + files(authority.File, client, ", server_name: api.example.com"):       "",
			start + files(authority.File, client, ", server_name: elsewhere.example.com"): "certificate is valid for",
			start + files(authority.File, stranger, ""):                                   anyError,
			start + files(other.File, client, ""):                                         "unknown authority",
			start + "tls: {ca_file: '" + authority.File + "'}":                            anyError,
			start + "timeout: 5s":                                                         "unknown authority",
		})
		if reached["client"] != "/"+kind {
			t.Errorf("%s: the server saw %v", kind, reached)
		}
	}
}

// Kafka with a password over TLS, by every mechanism, and with a client's
// certificate, against a broker with certificates of its own authority.
func TestG12_KafkaOverTLS(t *testing.T) {
	t.Parallel()
	authority, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	broker := testenv.StartSecureKafka(t, authority, "alice", "hunter2")
	admin, err := kgo.NewClient(kgo.SeedBrokers(broker.Brokers()...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := kadm.NewClient(admin).CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	client, stranger := authority.Issue("client"), other.Issue("client")
	start := func(brokers []string, more string) string {
		return fmt.Sprintf("type: kafka, topic: orders, brokers: [%q], %s", brokers[0], more)
	}
	login := func(mechanism, password, ca string) string {
		return start(broker.LoginBrokers(), fmt.Sprintf("sasl: {mechanism: %s, username: alice, password: %s}, tls: {ca_file: %q}", mechanism, password, ca))
	}
	show := func(c testenv.Certificate) string {
		return start(broker.CertificateBrokers(), fmt.Sprintf("tls: {ca_file: %q, cert_file: %q, key_file: %q}", authority.File, c.CertFile, c.KeyFile))
	}
	for text, works := range map[string]bool{
		login("plain", "hunter2", authority.File):         true,
		login("scram-sha-256", "hunter2", authority.File): true,
		login("scram-sha-512", "hunter2", authority.File): true,
		login("scram-sha-512", "hunter3", authority.File): false,
		login("scram-sha-512", "hunter2", other.File):     false,
		show(client):   true,
		show(stranger): false,
		start(broker.CertificateBrokers(), "tls: {ca_file: '"+authority.File+"'}"):                                                  false,
		start(broker.LoginBrokers(), "sasl: {mechanism: scram-sha-512, username: alice, password: hunter2}, tls: {enabled: false}"): false,
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()           // those that do not work try until their time is over
			timeout := time.Minute // of a broker that is busy with others
			if !works {
				timeout = 4 * time.Second
			}
			err := deliver(t, fmt.Sprintf("%s, timeout: %v", text, timeout))
			if (err == nil) != works || err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v, want it to work: %v", text, err, works)
			}
		})
	}
}

// Metadata services are out of reach for http destinations, whatever is allowed;
// other private addresses are not, unless the file says so.
func TestG12_HTTPReachesNoMetadataService(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	start := "type: http, url: '" + strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "'" // an address is refused before
	compareDeliveries(t, map[string]string{
		start:                            "",
		start + ", allow_private: false": "a loopback address",
		start + ", allow_private: false, allow_networks: ['127.0.0.0/8']":            "",
		start + ", deny_networks: ['127.0.0.0/8']":                                   "deny_networks",
		start + ", allow_networks: ['127.0.0.0/8'], deny_networks: ['127.0.0.1/32']": "deny_networks",
	})
	for _, host := range []string{"169.254.169.254", "168.63.129.16", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "100.100.100.200"} {
		if _, err := destination(t, "type: http, url: 'http://"+host+"/x', allow_networks: ['0.0.0.0/0', '::/0']"); err == nil || !strings.Contains(err.Error(), "metadata service") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// Headers of an answer are read up to a bound.
func TestHTTPAnswersAreBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 100<<10))
	}))
	t.Cleanup(server.Close)
	compareDeliveries(t, map[string]string{"type: http, url: '" + server.URL + "'": "exceeded"})
}
