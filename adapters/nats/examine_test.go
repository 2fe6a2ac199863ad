package nats

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/natsserver"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	name, _ := streamOf(t, shared.url, nil)
	for subject, want := range map[string]string{name + ".a": "", "{{.Type}}": "", "check-missing": "outrider topic create DESTINATION check-missing --yes"} {
		wantError(t, destination(t, shared.url, Config{Subject: subject}).Check(t.Context()), want)
	}
	wantError(t, destination(t, testenv.Refused(t), Config{Subject: "s", Timeout: time.Second}).Check(t.Context()), "connection refused")
	plain := natsserver.Start(t, func(o *server.Options) { o.JetStream = false })
	for _, subject := range []string{"s", "{{.Type}}"} {
		wantError(t, destination(t, plain.ClientURL(), Config{Subject: subject}).Check(t.Context()), "JetStream is not enabled")
	}
}

// findings are what the doctor says, a line for each.
func findings(list []adapters.Finding) string {
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%s %s: %s; %s\n", f.Level, f.Subject, f.Text, f.Fix)
	}
	return b.String()
}

func TestExamine(t *testing.T) {
	t.Parallel()
	lazy := natsserver.Start(t, func(o *server.Options) { o.HTTPHost, o.HTTPPort = "127.0.0.1", -1 })
	strict := natsserver.Start(t, func(o *server.Options) { o.HTTPHost, o.HTTPPort, o.SyncAlways = "127.0.0.1", -1, true })
	for url, cfg := range map[string]jetstream.StreamConfig{
		lazy.ClientURL():   {Name: "S", Subjects: []string{"s"}, Storage: jetstream.MemoryStorage, Duplicates: time.Second, NoAck: true},
		strict.ClientURL(): {Name: "S", Subjects: []string{"s"}, AllowAtomicPublish: true},
	} {
		if _, err := admin(t, url).CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		server *server.Server
		cfg    Config
		want   []string
	}{
		{lazy, Config{Subject: "s"}, []string{"ok connection to 127.0.0.1:", "broken stream S: acknowledges nothing", "warning stream S: is in memory", "warning stream S: has one replica", "warning stream S: takes no atomic batches",
			"warning stream S: the duplicate window of 1s is shorter than the 50s", "unknown sync interval: not known (nats: no responders available for request); by default servers write to disk every two minutes"}},
		{lazy, Config{Subject: "s", Monitoring: "http://" + lazy.MonitorAddr().String()}, []string{"warning sync interval: the server writes to disk every 2m0s: a power loss of all replicas loses acknowledged messages of that time; set jetstream {sync_interval: always}"}},
		{strict, Config{Subject: "s", Stream: "T", Monitoring: "http://" + strict.MonitorAddr().String() + "/"}, []string{"ok stream S: 1 replicas, storage file, duplicate window 2m0s", "ok sync interval: the server writes each message", "the destination names stream T"}},
		{strict, Config{Subject: "a.{{.Type}}"}, []string{"unknown subjects a.{{.Type}}: depend on the message"}},
		{strict, Config{Subject: "a.{{.Type}}", Stream: "S"}, []string{"ok stream S: 1 replicas"}},
		{strict, Config{Subject: "a.{{.Type}}", Stream: "T"}, []string{"broken stream T: "}},
		{strict, Config{Subject: "b"}, []string{`broken subject b: nats: no stream covers subject "b"`}},
	} {
		got := findings(destination(t, c.server.ClientURL(), c.cfg).Examine(t.Context()))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: no %q in\n%s", c.cfg, want, got)
			}
		}
	}
	down := findings(destination(t, testenv.Refused(t), Config{Subject: "s", Timeout: time.Second}).Examine(t.Context()))
	if !strings.Contains(down, "broken connection: nats: no server of") {
		t.Error(down)
	}
}

// The system account may export its services; then nothing needs the monitoring port.
func TestExamineAsksTheSystemAccount(t *testing.T) {
	t.Parallel()
	s := natsserver.Start(t, func(o *server.Options) {
		conf := filepath.Join(t.TempDir(), "nats.conf")
		text := fmt.Sprintf(`listen: "127.0.0.1:-1"
jetstream { store_dir: %q, sync_interval: always }
accounts {
  SYS { users: [{user: sys, password: x}], exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", response: singleton}] }
  APP { users: [{user: app, password: x}], jetstream: enabled, imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}] }
}
system_account: SYS
`, t.TempDir())
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		parsed, err := server.ProcessConfigFile(conf)
		if err != nil {
			t.Fatal(err)
		}
		parsed.NoLog, parsed.NoSigs = true, true
		*o = *parsed
	})
	got := findings(destination(t, s.ClientURL(), Config{Subject: "s", Connection: Connection{User: "app", Password: "x"}}).Examine(t.Context()))
	if !strings.Contains(got, "ok sync interval: the server writes each message") {
		t.Error(got)
	}
}

// A login is needed, and each kind of it works; what a user may not do is in the error.
func TestLoginsAndPermissions(t *testing.T) {
	t.Parallel()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	authority := testenv.NewAuthority(t)
	certificate := authority.Issue("127.0.0.1")
	users := natsserver.Start(t, func(o *server.Options) {
		o.TLS, o.TLSTimeout, o.TLSConfig = true, 10, &tls.Config{Certificates: []tls.Certificate{certificate.TLS}}
		o.Users = []*server.User{{Username: "all", Password: "x"},
			{Username: "few", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.LIST"}}}},
			{Username: "none", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"x"}}}}}
		o.Nkeys = []*server.NkeyUser{{Nkey: public}}
	})
	token := natsserver.Start(t, func(o *server.Options) { o.Authorization = "secret" })
	secure := &tls.Config{RootCAs: authority.Pool()}
	createSecure := Connection{Servers: []string{users.ClientURL()}, TLS: secure, User: "all", Password: "x"}
	for _, c := range []struct {
		server *server.Server
		login  Connection
		want   string
	}{
		{users, createSecure, ""},
		{users, Connection{TLS: secure, NKeyFile: file}, ""},
		{users, Connection{TLS: secure, User: "all", Password: "y"}, "Authorization Violation: check the login"},
		{users, Connection{User: "all", Password: "x"}, "certificate signed by unknown authority"},
		{users, Connection{TLS: secure, NKeyFile: "/does/not/exist"}, "nkey file /does/not/exist: "},
		{users, Connection{TLS: secure, CredentialsFile: "/does/not/exist"}, "/does/not/exist"},
		{users, Connection{TLS: secure, User: "few", Password: "x"}, `Permissions Violation for Publish to "login.a": grant the permission`},
		{users, Connection{TLS: secure, User: "none", Password: "x"}, `Permissions Violation for Publish to "$JS.API.STREAM.LIST": grant the permission`},
		{token, Connection{Token: "secret"}, ""},
		{token, Connection{Token: "other"}, "Authorization Violation"},
	} {
		d := destination(t, c.server.ClientURL(), Config{Connection: c.login, Subject: "login.a", Timeout: time.Second})
		if c.login.User != "few" && c.login.User != "none" && c.want == "" {
			if _, err := d.CreateTopic(t.Context(), adapters.NewTopic{Name: "login.a"}); err != nil {
				t.Fatal(err)
			}
		}
		msgs := []*message.Message{newMessage("1", "g", 1), newMessage("2", "g", 1)}
		errs := d.Deliver(t.Context(), "login.a", msgs)
		if c.want == "" && errs != nil {
			t.Errorf("login %+v: %v", c.login, errs[0])
		}
		if c.want != "" {
			if errs == nil {
				t.Fatalf("login %+v: delivered", c.login)
			}
			wantError(t, errs[0], c.want)
			if got := results(msgs, errs); got["1"] != "unavailable" {
				t.Errorf("login %+v: %v", c.login, got)
			}
		}
	}
	d := destination(t, users.ClientURL(), Config{Connection: createSecure, Subject: "login.a"})
	if got := findings(d.Examine(t.Context())); !strings.Contains(got, "certificate valid until") {
		t.Error(got)
	}
}

// What one connection was not permitted says nothing of the next: the permission may have been granted.
func TestADenialEndsWithItsConnection(t *testing.T) {
	s := natsserver.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "few", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"x"}}}}}
	})
	d := destination(t, s.ClientURL(), Config{Connection: Connection{User: "few", Password: "x"}, Subject: "a", Timeout: time.Second})
	errs := d.Deliver(t.Context(), "a", []*message.Message{newMessage("1", "g", 1)})
	wantError(t, errs[0], "grant the permission")
	_, session, err := d.link.get()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.link.conn.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	<-session.Done()
	if denial := d.link.denial("a"); denial != "" {
		t.Errorf("on the next connection it says %q", denial)
	}
}
