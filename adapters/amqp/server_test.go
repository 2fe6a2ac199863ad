package amqp

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// definitions are the users of a broker of our own: guest, who may do everything, and reader, who may only read.
const definitions = `{"users": [{"name": "guest", "password": "guest", "tags": "administrator"}, {"name": "reader", "password": "pw", "tags": ""}],
"vhosts": [{"name": "/"}], "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
{"user": "reader", "vhost": "/", "configure": "", "write": "", "read": ".*"}]}`

// TestG2_OnABrokerOfItsOwn has what needs a broker with other settings, and ends with its death: starting one takes five seconds.
func TestG2_OnABrokerOfItsOwn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "definitions.json")
	if err := os.WriteFile(file, []byte(definitions), 0o600); err != nil {
		t.Fatal(err)
	}
	authority := testenv.NewAuthority(t)
	r := testenv.StartSecureRabbitMQ(t, authority, "max_message_size = 1000", "load_definitions = "+file)
	t.Run("G12_TLS", func(t *testing.T) { encrypted(t, r, authority) })
	for name, test := range map[string]func(*testing.T, *testenv.RabbitServer){"G10_Outages": outages, "Size": tooLarge} {
		t.Run(name, func(t *testing.T) { test(t, r) })
	}
	t.Run("G10_Alarm", func(t *testing.T) { alarm(t, r) })
	t.Run("G1_Killed", func(t *testing.T) { killed(t, r) })
}

// encrypted: with amqps the broker's certificate is checked, by the destination, the doctor and the source.
func encrypted(t *testing.T, r *testenv.RabbitServer, authority *testenv.Authority) {
	s := connect(t, r.URL())
	queue := s.queue(t)
	for name, ca := range map[string]*testenv.Authority{"its": authority, "another": testenv.NewAuthority(t)} {
		certificates := &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS12}
		d := destination(t, Config{URL: r.SecureURL(), RoutingKey: queue, TLS: certificates})
		delivered, sub := d.Deliver(t.Context(), queue, []*message.Message{newMessage(name, "", 1)}), NewSubscriber(r.SecureURL(), certificates, slog.Default())
		findings, checked := d.Examine(t.Context()), sub.Check(t.Context(), queue)
		if ca == authority {
			if delivered != nil || checked != nil || findings[len(findings)-1].Level != adapters.LevelOK || !strings.Contains(findings[1].Text, "certificate valid until") {
				t.Errorf("with its authority: %v, %v, %+v", delivered, checked, findings)
			}
			continue
		}
		if delivered == nil || outbox.KindOf(delivered[0]) != outbox.KindUnavailable || !strings.Contains(delivered[0].Error(), "certificate") || checked == nil || findings[1].Level != adapters.LevelBroken {
			t.Errorf("with another authority: %v, %v, %+v", delivered, checked, findings)
		}
	}
	if got := s.content(t, queue); len(got) != 1 || got[0].MessageId != "its" {
		t.Errorf("arrived: %v", got)
	}
}

// outages: a missing exchange or queue, missing permissions and a wrong login are outages of the address, and say what to do.
func outages(t *testing.T, r *testenv.RabbitServer) {
	s := connect(t, r.URL())
	queue := s.queue(t)
	as := func(user string) string { return strings.Replace(r.URL(), "guest:guest", user, 1) }
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"exchange", Config{URL: r.URL(), Exchange: "nowhere"}, `exchange "nowhere" does not exist`},
		{"queue", Config{URL: r.URL(), RoutingKey: "nothing"}, `outrider topic create DESTINATION nothing --yes`},
		{"permission", Config{URL: as("reader:pw")}, `grant the user write on exchange "amq.default"`},
		{"login", Config{URL: as("guest:wrong")}, "check user, password and vhost"},
		{"virtual host", Config{URL: r.URL() + "elsewhere"}, "virtual host"},
		{"address", Config{URL: "amqp://127.0.0.1:1/"}, "check the address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.RoutingKey = cmp.Or(c.cfg.RoutingKey, queue)
			d := destination(t, c.cfg)
			msgs := []*message.Message{newMessage("1", "a", 1), newMessage("2", "a", 1), newMessage("3", "", 1)}
			for i, err := range d.Deliver(t.Context(), c.cfg.RoutingKey, msgs) {
				harmless := outbox.KindOf(err) == outbox.KindUnavailable || i == 1 && outbox.KindOf(err) == outbox.KindReleased
				if err == nil || !harmless || i != 1 && !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "wrong") {
					t.Errorf("message %s: %v (%v), want an outage with %q", msgs[i].UUID, err, outbox.KindOf(err), c.want)
				}
			}
			if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("check: %v, want %q", err, c.want)
			}
		})
	}
	if n := len(s.content(t, queue)); n != 0 {
		t.Errorf("%d messages arrived", n)
	}
}

// tooLarge: the broker refuses one message of a wave for its size, and does not say which.
func tooLarge(t *testing.T, r *testenv.RabbitServer) {
	s := connect(t, r.URL())
	queue := s.queue(t)
	d := destination(t, Config{URL: r.URL(), RoutingKey: queue, PerGroup: 10})
	var msgs []*message.Message
	for _, id := range []string{"a1", "b1", "a2", "b2", "a3", "b3"} {
		msgs = append(msgs, newMessage(id, id[:1], map[string]int{"a2": 2000}[id]))
	}
	errs := d.Deliver(t.Context(), queue, msgs)
	want := map[string]string{"a1": "ok", "a2": "permanent", "a3": "released", "b1": "ok", "b2": "ok", "b3": "ok"}
	if got := results(msgs, errs); !maps.Equal(got, want) {
		t.Errorf("results %v, want %v: %v", got, want, errs)
	}
	for group, want := range map[string][]string{"a": {"a1"}, "b": {"b1", "b2", "b3"}} {
		if got := slices.Compact(s.ids(t, queue, group)); !slices.Equal(got, want) {
			t.Errorf("group %s: arrived %v", group, got)
		}
	}
}

// alarm: the broker blocks publishers. Messages wait, are not sent over and over, and arrive when it ends.
func alarm(t *testing.T, r *testenv.RabbitServer) {
	s := connect(t, r.URL())
	queue := s.queue(t)
	d := destination(t, Config{URL: r.URL(), RoutingKey: queue})
	if errs := d.Deliver(t.Context(), queue, []*message.Message{newMessage("0", "c", 1)}); errs != nil {
		t.Fatal(errs)
	}
	r.Control("set_vm_memory_high_watermark", "absolute", "1000")
	msgs := []*message.Message{newMessage("1", "c", 1)}
	for range 3 {
		if err := d.Deliver(t.Context(), queue, msgs)[0]; outbox.KindOf(err) != outbox.KindUnavailable || !strings.Contains(err.Error(), "blocks publishers: low on memory") {
			t.Errorf("under an alarm: %v", err)
		}
	}
	for name, err := range map[string]error{"the same": d.Check(t.Context()), "another": destination(t, Config{URL: r.URL(), RoutingKey: queue}).Check(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "blocks publishers: low on memory") {
			t.Errorf("check of %s connection under an alarm: %v", name, err)
		}
	}
	r.Control("set_vm_memory_high_watermark", "0.9")
	l := &sender{d: d, queue: queue, todo: msgs, attempts: map[string]int{"0": 1, "1": 1}, failures: map[string]int{}}
	l.run(t, nil)
	l.check(t, s.content(t, queue))
}

// killed: the broker is killed and started again. What was confirmed is there, in order.
func killed(t *testing.T, r *testenv.RabbitServer) {
	s := connect(t, r.URL())
	queue := newName(t)
	s.make(t, queue, quorum(0))
	r.AwaitSaved(queue)
	d := destination(t, Config{URL: r.URL(), RoutingKey: queue})
	l := newSender(d, queue, 20, 40)
	var wg sync.WaitGroup
	kill := sync.OnceFunc(func() { wg.Go(func() { r.Kill(); r.Start() }) })
	l.run(t, func(left int) {
		if left < 600 {
			kill() // while waves go on
		}
	})
	wg.Wait()
	if l.failures["unavailable"] == 0 {
		t.Error("no wave failed")
	}
	l.check(t, connect(t, r.URL()).content(t, queue))
}
