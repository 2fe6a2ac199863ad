package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const orders = 20

// event is an event that arrived, by either way.
type event struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Source       string          `json:"source"`
	PartitionKey string          `json:"partitionkey"`
	Data         json.RawMessage `json:"data"`
}

func (e event) String() string {
	return fmt.Sprintf("%s %s %s %s %s", e.ID, e.Type, e.Source, e.PartitionKey, e.Data)
}

// publish fills a new database, which the files name by ORDERS_DB.
func publish(t *testing.T, file string) {
	t.Helper()
	t.Setenv("ORDERS_DB", filepath.Join(t.TempDir(), "orders.db"))
	cfg, err := outrider.LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operate.Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for i := range orders {
		e, err := outbox.New("order.placed").ID(fmt.Sprintf("event-%02d", i)).
			Group(fmt.Sprintf("customer-%d", i%3)).JSON(map[string]int{"order": i}).Build()
		if err != nil {
			t.Fatal(err)
		}
		if err := operate.Publish(t.Context(), cfg, "app", e); err != nil {
			t.Fatal(err)
		}
	}
}

// deliver runs the program with a file until all orders have been received.
func deliver(t *testing.T, file string, receive func(ctx context.Context) ([]event, error)) []event {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, file) }()
	var got []event
	for len(got) < orders {
		some, err := receive(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, some...)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return got
}

// check compares what arrived with what was published: all of it, once, and in
// order within each customer.
func check(t *testing.T, got []event) {
	t.Helper()
	if len(got) != orders {
		t.Errorf("%d events, want %d", len(got), orders)
	}
	byCustomer := map[string][]string{}
	for _, e := range got {
		byCustomer[e.PartitionKey] = append(byCustomer[e.PartitionKey], e.String())
	}
	for customer, texts := range byCustomer {
		if !slices.IsSorted(texts) {
			t.Errorf("%s: out of order: %v", customer, texts)
		}
	}
	for i := range orders {
		want := fmt.Sprintf(`event-%02d order.placed shop customer-%d {"order":%d}`, i, i%3, i)
		if !slices.Contains(byCustomer[fmt.Sprintf("customer-%d", i%3)], want) {
			t.Errorf("missing: %s", want)
		}
	}
}

func TestOrdersOverHTTP(t *testing.T) {
	arrivals := make(chan []event, orders)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var batch []event
		if err != nil || json.Unmarshal(body, &batch) != nil {
			http.Error(w, "not a batch", http.StatusBadRequest)
			return
		}
		arrivals <- batch
	}))
	defer api.Close()
	t.Setenv("ORDERS_URL", api.URL+"/orders")
	publish(t, "orders-http.yaml")
	check(t, deliver(t, "orders-http.yaml", func(ctx context.Context) ([]event, error) {
		select {
		case batch := <-arrivals:
			return batch, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
}

func TestOrdersOverWebhooks(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	arrivals := make(chan event, orders)
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var e event
		if err != nil || wh.Verify(body, r.Header) != nil || json.Unmarshal(body, &e) != nil {
			http.Error(w, "not a signed event", http.StatusUnauthorized)
			return
		}
		arrivals <- e
	}))
	defer partner.Close()
	t.Setenv("ORDERS_URL", partner.URL+"/orders")
	t.Setenv("ORDERS_SECRET", secret)
	publish(t, "orders-webhook.yaml")
	check(t, deliver(t, "orders-webhook.yaml", func(ctx context.Context) ([]event, error) {
		select {
		case e := <-arrivals:
			return []event{e}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
}

func TestOrdersOverKafka(t *testing.T) {
	brokers := testenv.Kafka(t)
	topic := fmt.Sprintf("example-swapbroker-%d", os.Getpid())
	t.Setenv("KAFKA_BROKER", brokers[0])
	t.Setenv("ORDERS_TOPIC", topic)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = admin.DeleteTopics(context.Background(), topic) }() // only tidies up
	publish(t, "orders-kafka.yaml")
	check(t, deliver(t, "orders-kafka.yaml", func(ctx context.Context) ([]event, error) {
		fetches := client.PollFetches(ctx)
		var out []event
		for _, r := range fetches.Records() {
			out = append(out, eventOf(r))
		}
		return out, fetches.Err()
	}))
}

// eventOf reads a CloudEvent in Kafka's binary mode: attributes are headers, the
// key is the partition key, the value is the data.
func eventOf(r *kgo.Record) event {
	e := event{PartitionKey: string(r.Key), Data: r.Value}
	for _, h := range r.Headers {
		switch h.Key {
		case "ce_id":
			e.ID = string(h.Value)
		case "ce_type":
			e.Type = string(h.Value)
		case "ce_source":
			e.Source = string(h.Value)
		}
	}
	return e
}

// The promise of the example: nothing but the destination is edited.
func TestTheFilesDifferInTheDestinationOnly(t *testing.T) {
	t.Parallel()
	rest := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, text2, _ := strings.Cut(string(text), "\n") // the title
		before, from, _ := strings.Cut(text2, "destinations:\n")
		_, after, found := strings.Cut(from, "routes:\n")
		if !found {
			t.Fatalf("%s has no destinations and routes", file)
		}
		return before + after
	}
	kafka := rest("orders-kafka.yaml")
	for _, file := range []string{"orders-http.yaml", "orders-webhook.yaml", "orders-nats.yaml", "orders-amqp.yaml", "orders-redis.yaml"} {
		if _, err := outrider.LoadConfig(file); err != nil && file != "orders-webhook.yaml" { // which needs a secret
			t.Error(err)
		}
		if other := rest(file); other != kafka {
			t.Errorf("orders-kafka.yaml:\n%s\n%s:\n%s", kafka, file, other)
		}
	}
}
