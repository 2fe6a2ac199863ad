package main

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/internal/testenv"
)

// pageConfig is the configuration of docs/migrate/watermill.md, with a receiver of the test in place of Kafka. Each
// of the commands must stand on the page as it is given.
func pageConfig(t *testing.T, receiver string, commands ...string) string {
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
	return "admin: {listen: off}\n" + regexp.MustCompile(`out: \{.*\}`).ReplaceAllString(text, fmt.Sprintf("out: {type: http, url: %q, format: watermill}", receiver))
}

// stockOrders is a topic of watermill-sql with its publisher and its subscriber.
type stockOrders struct {
	t  *testing.T
	db *sql.DB
	n  int
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
	var mu sync.Mutex
	var got []string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("Message-Uuid"))
	}))
	defer receiver.Close()
	wantNext := func(s *site, o *stockOrders, from int, besides func() bool) {
		t.Helper()
		s.runUntil(func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) >= o.n-from && besides()
		})
		mu.Lock()
		defer mu.Unlock()
		var want []string
		for i := from; i < o.n; i++ {
			want = append(want, strconv.Itoa(i))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%v arrived, want %v", got, want)
		}
		got = nil
	}
	always := func() bool { return true }
	whole := pageConfig(t, receiver.URL, "outrider init", "outrider init --indexes", "outrider run", seek)
	stepwise := strings.Replace(strings.Replace(whole, ", start: offsets", "", 1), "topic: orders, consumer_group", "client: watermill, topic: orders, consumer_group", 1)
	for name, steps := range map[string]func(s *site, o *stockOrders, as func(role, text string), relay, operator string){
		"stop, then start": func(s *site, o *stockOrders, as func(role, text string), relay, _ string) {
			o.publish(10)
			o.consume(10)
			o.publish(5)
			as(relay, whole)
			wantNext(s, o, 10, always)
		},
		"step by step": func(s *site, o *stockOrders, as func(role, text string), relay, operator string) {
			o.publish(10)
			o.consume(10)
			o.publish(5)
			as(relay, stepwise)
			wantNext(s, o, 10, func() bool { return o.acked() == 15 })
			o.publish(4)
			own := strings.Replace(stepwise, "client: watermill, ", "", 1)
			as(operator, own)
			s.must(append(strings.Fields(seek)[1:], "--yes")...)
			as(relay, own)
			wantNext(s, o, 15, always)
		},
	} {
		t.Run(name, func(t *testing.T) {
			address, suffix := testenv.Postgres(t), strings.ToLower(rand.Text())
			o := newStockOrders(t, address)
			s := newSite(t, "")
			relay, operator := "relay_"+suffix, "operator_"+suffix
			createRole(t, address, relay)
			createRole(t, address, operator)
			as := func(role, text string) {
				s.write(strings.Replace(text, "${DATABASE_URL}", asRole(t, address, role), 1))
			}
			for _, text := range []string{whole, stepwise} { // the roles work with both
				as("", text)
				s.must("init", "--indexes")
				s.must("init")
				runSQL(t, address, onlyGrants(s.must("init", "--print", "--relay", relay, "--operator", operator)))
			}
			steps(s, o, as, relay, operator)
		})
	}
}

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
