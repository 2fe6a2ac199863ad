package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/testenv"
)

// pageConfig is the configuration of docs/migrate/watermill.md, with a broker and a topic of the test. Each of the commands must stand on
// the page as it is given.
func pageConfig(t *testing.T, broker, topic string, commands ...string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/migrate/watermill.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		if !strings.Contains(string(page), "`"+command+"`") {
			t.Errorf("the page does not say `%s`", command)
		}
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no configuration")
	}
	text := regexp.MustCompile(`(?m)^   `).ReplaceAllString(string(block[1]), "")
	const out = "out: {type: kafka, brokers: [127.0.0.1:9092], topic: orders}"
	if !strings.Contains(text, out) {
		t.Fatalf("the page's configuration has no %s", out)
	}
	return "admin: {listen: off}\n" + strings.Replace(text, out, fmt.Sprintf("out: {type: kafka, brokers: [%q], topic: %s}", broker, topic), 1)
}

// stockOrders is a topic of watermill-sql with its publisher and its subscriber.
type stockOrders struct {
	t  *testing.T
	db *sql.DB
	n  int

	mu  sync.Mutex
	got []string // UUIDs that came to the topic
}

// watch has what comes to a new topic gathered.
func (o *stockOrders) watch(broker, topic string) {
	o.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	o.must(err)
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(o.t.Context(), 1, 1, nil, topic)
	o.must(err)
	ctx, cancel := context.WithCancel(o.t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				o.mu.Lock()
				defer o.mu.Unlock()
				for _, h := range r.Headers {
					if h.Key == "_watermill_message_uuid" {
						o.got = append(o.got, string(h.Value))
					}
				}
			})
		}
	})
	o.t.Cleanup(func() {
		cancel()
		work.Wait()
		_, _ = admin.DeleteTopics(context.Background(), topic) // only tidies up
		client.Close()
	})
}

// arrived are the UUIDs that came to the topic since the last forget.
func (o *stockOrders) arrived() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.got)
}

func (o *stockOrders) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = nil
}

func newStockOrders(t *testing.T, address string) *stockOrders {
	t.Helper()
	db, err := sql.Open("pgx", address)
	o := &stockOrders{t: t, db: db}
	o.must(err)
	t.Cleanup(func() { _ = db.Close() })
	for _, q := range append(wmsql.DefaultPostgreSQLSchema{}.SchemaInitializingQueries("orders"),
		wmsql.DefaultPostgreSQLOffsetsAdapter{}.SchemaInitializingQueries("orders")...) {
		_, err := db.ExecContext(t.Context(), q.Query, q.Args...)
		o.must(err)
	}
	return o
}

func (o *stockOrders) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// publish publishes the next n messages.
func (o *stockOrders) publish(n int) {
	o.t.Helper()
	pub, err := wmsql.NewPublisher(o.db, wmsql.PublisherConfig{SchemaAdapter: wmsql.DefaultPostgreSQLSchema{}}, nil)
	o.must(err)
	for range n {
		o.must(pub.Publish("orders", message.NewMessage(strconv.Itoa(o.n), []byte("{}"))))
		o.n++
	}
}

// consume has the stock Subscriber of the group take n messages.
func (o *stockOrders) consume(n int) {
	o.t.Helper()
	sub, err := wmsql.NewSubscriber(o.db, wmsql.SubscriberConfig{ConsumerGroup: "billing", SchemaAdapter: wmsql.DefaultPostgreSQLSchema{},
		OffsetsAdapter: wmsql.DefaultPostgreSQLOffsetsAdapter{}}, nil)
	o.must(err)
	msgs, err := sub.Subscribe(o.t.Context(), "orders")
	o.must(err)
	for range n {
		(<-msgs).Ack()
	}
	o.must(sub.Close())
}

// acked is up to where the group has acknowledged.
func (o *stockOrders) acked() (n int) {
	o.t.Helper()
	o.must(o.db.QueryRowContext(o.t.Context(), `SELECT offset_acked FROM watermill_offsets_orders WHERE consumer_group = 'billing'`).Scan(&n))
	return n
}

// The commands of the page, in its order, with the page's configuration, by roles that have what init prints and
// no more: a relay takes a Subscriber's place at once, and step by step. Nothing is lost, and nothing comes twice.
func TestG1_TheCommandsOfTheWatermillPage(t *testing.T) {
	const seek = "outrider seek orders --to offsets"
	wantNext := func(s *site, o *stockOrders, from int, besides func() bool) {
		t.Helper()
		s.runUntil(func() bool { return len(o.arrived()) >= o.n-from && besides() })
		var want []string
		for i := from; i < o.n; i++ {
			want = append(want, strconv.Itoa(i))
		}
		got := o.arrived()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%v arrived, want %v", got, want)
		}
		o.forget()
	}
	always := func() bool { return true }
	for name, steps := range map[string]func(s *site, o *stockOrders, as func(role, text string), p pageRun){
		"stop, then start": func(s *site, o *stockOrders, as func(role, text string), p pageRun) {
			o.publish(10)
			o.consume(10)
			o.publish(5)
			as(p.relay, p.whole)
			wantNext(s, o, 10, always)
		},
		"step by step": func(s *site, o *stockOrders, as func(role, text string), p pageRun) {
			o.publish(10)
			o.consume(10)
			o.publish(5)
			as(p.relay, p.stepwise)
			wantNext(s, o, 10, func() bool { return o.acked() == 15 })
			o.publish(4)
			own := strings.Replace(p.stepwise, "client: watermill, ", "", 1)
			as(p.operator, own)
			s.must(append(strings.Fields(seek)[1:], "--yes")...)
			as(p.relay, own)
			wantNext(s, o, 15, always)
		},
	} {
		t.Run(name, func(t *testing.T) {
			address, suffix := testenv.Postgres(t), strings.ToLower(rand.Text())
			broker, topic := testenv.Kafka(t)[0], "page-"+suffix
			o := newStockOrders(t, address)
			o.watch(broker, topic)
			s := newSite(t, "")
			p := pageRun{relay: "relay_" + suffix, operator: "operator_" + suffix,
				whole: pageConfig(t, broker, topic, "outrider init", "outrider init --indexes", "outrider run", seek)}
			p.stepwise = strings.Replace(strings.Replace(p.whole, ", start: offsets", "", 1), "topic: orders, consumer_group", "client: watermill, topic: orders, consumer_group", 1)
			createRole(t, address, p.relay)
			createRole(t, address, p.operator)
			as := func(role, text string) {
				s.write(strings.Replace(text, "${DATABASE_URL}", asRole(t, address, role), 1))
			}
			for _, text := range []string{p.whole, p.stepwise} { // the roles work with both
				as("", text)
				s.must("init", "--indexes")
				s.must("init")
				runSQL(t, address, onlyGrants(s.must("init", "--print", "--relay", p.relay, "--operator", p.operator)))
			}
			steps(s, o, as, p)
		})
	}
}

// pageRun is what the steps of the page are run with: its configuration, before and with `client: watermill`, and two roles.
type pageRun struct{ whole, stepwise, relay, operator string }

// onlyGrants are the statements of init --print that grant.
func onlyGrants(printed string) string {
	var b strings.Builder
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "GRANT ") {
			b.WriteString(line)
		}
	}
	return b.String()
}
