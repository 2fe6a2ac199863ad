package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// network is a connection between the relay and one of its servers that can be
// disturbed.
type network struct {
	t *testing.T
	*toxiproxy.Proxy
}

// connectVia starts a proxy in front of a server (host:port).
func connectVia(t *testing.T, server string) *network {
	t.Helper()
	host := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(host, t.Name(), "127.0.0.1:0", server)
	must(t, p.Start())
	t.Cleanup(p.Stop)
	return &network{t, p}
}

// toward has the proxy pass connections on to another server from now on.
func (n *network) toward(server string) {
	n.t.Helper()
	must(n.t, n.Update(&toxiproxy.Proxy{Listen: n.Listen, Upstream: server, Enabled: true}))
}

// restart has the proxy listen at its port again, which another connection of this machine may have meanwhile.
func (n *network) restart() {
	n.t.Helper()
	err := n.Start()
	for end := time.Now().Add(time.Minute); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); err = n.Start() {
		time.Sleep(100 * time.Millisecond)
	}
	must(n.t, err)
}

// disturb has connections suffer from something until calm is called.
func (n *network) disturb(toxic toxics.ToxicWrapper) (calm func()) {
	n.t.Helper()
	toxic.Name, toxic.Toxicity = "fault", 1
	text, err := json.Marshal(toxic)
	must(n.t, err)
	_, err = n.Toxics.AddToxicJson(strings.NewReader(string(text)))
	must(n.t, err)
	return func() {
		n.t.Helper()
		must(n.t, n.Toxics.RemoveToxic(n.t.Context(), "fault"))
	}
}

// silence is a toxic that drops all data and leaves the connection open when it is
// removed: requests in flight get no answer, while new ones get theirs.
type silence struct{}

// Pipe implements toxics.Toxic.
func (*silence) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
		}
	}
}

// trouble is a fault of a scenario: begin causes it, end repairs it.
type trouble struct {
	name  string
	begin func() (end func())
}

// disturbances are the ways in which a network fails: it is slow or narrow, it
// resets connections, it cuts them in the middle of a message, and it swallows
// what one side says, so that the other waits, until the connection breaks or for
// good.
func (n *network) disturbances() []trouble {
	const toServer, toRelay = "upstream", "downstream"
	var out []trouble
	for _, d := range []struct {
		name, stream, kind string
		toxic              toxics.Toxic
	}{
		{"latency", toRelay, "latency", &toxics.LatencyToxic{Latency: 150, Jitter: 100}},
		{"little bandwidth to the server", toServer, "bandwidth", &toxics.BandwidthToxic{Rate: 10}},
		{"little bandwidth to the relay", toRelay, "bandwidth", &toxics.BandwidthToxic{Rate: 10}},
		{"resets", toServer, "reset_peer", &toxics.ResetToxic{Timeout: 10}},
		{"requests cut off", toServer, "limit_data", &toxics.LimitDataToxic{Bytes: 1500}},
		{"answers cut off", toRelay, "limit_data", &toxics.LimitDataToxic{Bytes: 1500}},
		{"requests swallowed", toServer, "timeout", &toxics.TimeoutToxic{}},
		{"answers swallowed", toRelay, "timeout", &toxics.TimeoutToxic{}},
		{"answers lost", toRelay, "silence", &silence{}},
	} {
		out = append(out, trouble{d.name, func() func() {
			return n.disturb(toxics.ToxicWrapper{Toxic: d.toxic, Type: d.kind, Stream: d.stream})
		}})
	}
	return out
}

// hasty tries again soon. A network that fails now and then costs attempts: only
// one that fails everything is an outage.
const hasty = "[poison, {retry: {attempts: 10, base: 50ms, max: 800ms}}, timeout: 2s]"

// troubleTime is how long each trouble lasts.
const troubleTime = 600 * time.Millisecond

// troubled runs the relay under load through all troubles in turn.
func troubled(t *testing.T, name string, db *database, s settings, to destination, troubles []trouble) {
	t.Helper()
	s.top, s.window = []string{"settle_interval: 20ms", "lease: 4s"}, killWindow
	r := start(t, s.text())
	w := write(t, db.pool, true)
	more := func() {
		t.Helper()
		before := to.arrived()
		r.until("delivers under load", func() bool { return to.arrived() > before+50 })
	}
	var recovery stopwatch
	faults := 0
	more()
	for range rounds(t, 1, 3) {
		for _, trouble := range troubles {
			end := trouble.begin()
			pause(t.Context(), troubleTime)
			end()
			began := time.Now()
			more()
			recovery.since(began)

			faults++
		}
	}
	w.stop()
	rows := len(db.rows())
	r.until("delivered everything", func() bool { return to.arrived() >= rows })
	// What arrived and whose answer was lost comes again, maybe out of the parking.
	r.until("heard of it", func() bool { return one[bool](db, settledEverything, lanes) && db.parked("true") == 0 })
	r.stop()
	report := check.Compare(db.rows(), to.all()...)
	tell(t, fmt.Sprintf("%d faults of %d kinds between the relay and %s", faults, len(troubles), name), report, recovery)
	if !report.Clean() || report.Duplicates > faults*killWindow*lanes {
		t.Errorf("not clean, or more duplicates than the windows hold: %v", report)
	}
	if n := db.parked("true"); n > 0 {
		t.Errorf("%d messages are still parked, %d of them dead", n, db.parked("status IN ('dead', 'held')"))
	}
}

func TestG1_G2_NetworkToPostgres(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	to := receive(t, nil)
	u, err := url.Parse(db.url)
	must(t, err)
	net := connectVia(t, u.Host)
	u.Host = net.Listen
	troubled(t, "PostgreSQL", db, settings{database: u.String(), destination: toHTTP(to.url())}, to, net.disturbances())
}

// Each round trip to the server takes a twentieth of the lease, and all connections
// break: the relay opens new ones, takes its lock again and continues within the lease, as
// often as it happens.
func TestG13_ReconnectsOverASlowNetwork(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	to := receive(t, nil)
	u, err := url.Parse(db.url)
	must(t, err)
	net := connectVia(t, u.Host)
	u.Host = net.Listen
	s := settings{database: u.String(), destination: toHTTP(to.url()), middleware: hasty, top: []string{"lease: 4s"}}
	r := start(t, s.text())
	write := func(prefix string) {
		before := to.arrived()
		db.fill(batch{n: 50, groups: 5, prefix: prefix})
		r.until("delivers "+prefix, func() bool { return to.arrived() == before+50 })
	}
	write("before")
	calm := net.disturb(toxics.ToxicWrapper{Toxic: &toxics.LatencyToxic{Latency: 200}, Type: "latency", Stream: "downstream"})
	for i := range 3 {
		net.Stop()
		net.restart()
		write(fmt.Sprint("slowly ", i))
	}
	calm()
	r.stop()
}

func TestG1_G2_NetworkToHTTP(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	to := receive(t, nil)
	net := connectVia(t, to.address)
	s := settings{database: db.url, destination: toHTTP("http://" + net.Listen), middleware: hasty}
	troubled(t, "HTTP", db, s, to, net.disturbances())
}

// The broker is killed as well, with more to deliver than the lanes have room for.
// That costs no message an attempt. The test has a broker of its own, which
// advertises the address of the proxy.
func TestG1_G2_G10_NetworkToKafkaAndKills(t *testing.T) {
	t.Parallel()
	net := connectVia(t, "")
	broker := testenv.StartKafkaBehind(t, net.Listen)
	net.toward(broker.Brokers()[0])
	db := newDatabase(t)
	topic := newTopic(t, broker.Brokers(), kgo.Dialer(broker.Dial))
	to := consume(t, broker.Brokers(), topic, kgo.Dialer(broker.Dial))
	s := settings{database: db.url, destination: toKafka([]string{net.Listen}, topic) + ", timeout: 3s", middleware: strict}
	killed := trouble{"the broker killed", func() func() {
		broker.Kill()
		db.fill(batch{n: outageMessages, groups: outageGroups, prefix: "backlog"})
		return func() {
			broker.Start()
			if n := db.parked("attempts > 0 OR status IN ('dead', 'held')"); n > 0 {
				t.Errorf("%d messages were charged for the outage", n)
			}
		}
	}}
	troubled(t, "Kafka", db, s, to, append(net.disturbances(), killed))
}
