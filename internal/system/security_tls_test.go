package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// Everything that connects to PostgreSQL, the relay and the commands, does so as
// the source's tls says: the server lets the role in by a
// certificate only, and its own is known by ca_file alone.
func TestG12_EverythingConnectsOverTLS(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	server := testenv.StartSecurePostgres(t, authority, "hostssl all relay 127.0.0.1/32 cert")
	admin, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	for _, sql := range []string{"CREATE ROLE relay SUPERUSER LOGIN", "CREATE DATABASE state"} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	client := authority.Issue("relay")
	where := func(database string) string {
		return fmt.Sprintf(`url: "postgres://relay@127.0.0.1:%d/%s", tls: {ca_file: %q, cert_file: %q, key_file: %q}`,
			admin.Config().Port, database, authority.File, client.CertFile, client.KeyFile)
	}
	for _, state := range []string{"", "state: {" + where("state") + "}"} {
		relayOverTLS(t, fmt.Sprintf(`
%s
admin: {listen: off}
sources:
  app: {type: postgres, %s, wake: notify, leader: true, leader_lock: 7, retention: {}}
destinations: {out: {type: discard}}
routes: {all: {from: app, to: out, middleware: [dedupe: 1h]}}
`, state, where("postgres")))
	}
}

// relayOverTLS runs a relay, and commands at the same time, with a configuration.
func relayOverTLS(t *testing.T, text string) {
	t.Helper()
	cfg, err := config.Parse("t.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operate.Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := operate.InitWake(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	event, err := outbox.New("order.placed").JSON(1).Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := operate.Publish(ctx, cfg, "app", event); err != nil {
		t.Fatal(err)
	}
	for s := relay.Stats(); len(s) == 0 || s[0].Delivered == 0; s = relay.Stats() {
		select {
		case err := <-ended:
			t.Fatalf("not delivered: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	var connections []string
	for _, d := range doctor.Doctor(ctx, cfg) {
		if d.Subject == "connection" {
			connections = append(connections, d.Part+": "+d.Text)
		}
	}
	said := strings.Join(connections, "\n")
	if strings.Count(said, "TLS 1.3, the server's certificate checked") < 2 || strings.Contains(said, "not encrypted") {
		t.Errorf("doctor says\n%s", said)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A server without TLS stops the start of a source that is not on this machine,
// and the error says which key to set.
func TestG12_AStartWithoutTLSNamesTheKey(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	text := fmt.Sprintf(`
sources: {app: {type: postgres, url: %q, tls: {enabled: true}}}
destinations: {out: {type: discard}}
routes: {all: {from: app, to: out}}
`, strings.TrimSuffix(server.URL(), "?sslmode=disable"))
	cfg, err := config.Parse("t.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = operate.Init(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "tls: {enabled: false}") {
		t.Errorf("init: %v", err)
	}
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Admin.Listen = "off"
	if err := relay.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "tls: {enabled: false}") {
		t.Errorf("run: %v", err)
	}
	found := false
	for _, d := range doctor.Doctor(t.Context(), cfg) {
		found = found || strings.Contains(d.Fix, "tls: {enabled: false}")
	}
	if !found {
		t.Error("doctor does not name the key")
	}
}
