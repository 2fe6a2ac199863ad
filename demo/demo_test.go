package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/natsserver"
)

func TestMain(m *testing.M) {
	// The library of watermill-kafka keeps a metrics goroutine for the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestADemoEndsCleanWithAllItsTrouble(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tally, err := Run(t.Context(), Options{For: 3 * time.Second, Rate: 300, Out: &out, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if !tally.Clean() || tally.Committed == 0 {
		t.Errorf("tally %+v", tally)
	}
	if !strings.Contains(out.String(), "Every committed order arrived once and in order.") {
		t.Errorf("the verdict is missing:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "Dashboard, where you may do everything: http://127.0.0.1:") {
		t.Errorf("the address of the dashboard is missing:\n%s", out.String())
	}
}

// The demo delivers to a broker of each kind, and reads from there what it delivered.
func TestADemoToABroker(t *testing.T) {
	for kind, to := range map[string]func(t *testing.T) string{
		"kafka": func(t *testing.T) string { return "kafka://" + testenv.Kafka(t)[0] },
		"nats":  func(t *testing.T) string { return natsserver.Start(t, nil).ClientURL() },
		"amqp":  func(t *testing.T) string { return testenv.RabbitMQ(t) },
		"redis": func(t *testing.T) string { return "redis://" + testenv.Redis(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			var out bytes.Buffer
			tally, err := Run(t.Context(), Options{For: time.Second, Rate: 100, To: to(t), Out: &out, Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			if !tally.Clean() || tally.Committed == 0 {
				t.Errorf("tally %+v", tally)
			}
		})
	}
	for _, wrong := range []string{"foo://x", "nats:", ":"} {
		if _, err := Run(t.Context(), Options{To: wrong, Out: io.Discard, Logger: quiet()}); err == nil {
			t.Errorf("%q is a broker", wrong)
		}
	}
}

func TestADemoThatIsInterruptedFinishesAndTallies(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := &watcher{}
	out.seen = func(text string) {
		if strings.Contains(text, "committed ") {
			cancel()
		}
	}
	tally, err := Run(ctx, Options{Out: out, Logger: quiet()})
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if !tally.Clean() || tally.Committed == 0 {
		t.Errorf("tally %+v", tally)
	}
}

// watcher calls seen with what is written.
type watcher struct{ seen func(string) }

func (w *watcher) Write(p []byte) (int, error) {
	w.seen(string(p))
	return len(p), nil
}

func TestTheConfigurationThatIsShownIsValid(t *testing.T) {
	t.Parallel()
	cfg, err := outrider.ParseConfig("demo.yaml", []byte(Config()))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Routes) != len(regions) || len(cfg.Warnings) != 0 {
		t.Errorf("%d routes, warnings %v", len(cfg.Routes), cfg.Warnings)
	}
}

func TestARolledBackSaleLeavesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	cfg, err := outrider.ParseConfig("demo.yaml", []byte(configText(path, "127.0.0.1:8080", overHTTP(map[string]string{
		"north": "127.0.0.1:1", "south": "127.0.0.1:1", "west": "127.0.0.1:1"}), DefaultRate)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operate.Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	s, err := openShop(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	const sales = 200
	for range sales {
		if err := s.sell(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var orders, messages, pairs, gaps int
	for query, into := range map[string]*int{
		`SELECT count(*) FROM orders`:          &orders,
		`SELECT count(*) FROM outrider_outbox`: &messages,
		`SELECT count(*) FROM orders o JOIN outrider_outbox m
			ON m.payload ->> 'id' = o.id AND m.payload ->> 'number' = o.number AND m.message_group = o.account`: &pairs,
		`SELECT count(*) FROM (SELECT account FROM orders GROUP BY account HAVING max(number) <> count(*))`: &gaps,
	} {
		if err := s.db.QueryRowContext(t.Context(), query).Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	rolledBack := int(s.rolledBack.Load())
	if orders != s.sold() || orders != sales-rolledBack || messages != orders || pairs != orders || gaps != 0 {
		t.Errorf("%d sales, %d rolled back: %d orders, %d messages, %d pairs, %d accounts with gaps",
			sales, rolledBack, orders, messages, pairs, gaps)
	}
	if rolledBack == 0 {
		t.Error("no transaction was rolled back")
	}
}

// post sends a body to the receiver's customer heron.
func post(t *testing.T, r *receiver, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address+"/heron/orders", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestAReceiverBooksOnlyWhatItAccepts(t *testing.T) {
	t.Parallel()
	r := newReceiver("north", newLedger())
	if err := r.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal([]order{sale(1, 1), sale(2, 2)})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(body string, status, delivered int) {
		t.Helper()
		if got := post(t, r, body); got != status {
			t.Errorf("status %d, want %d", got, status)
		}
		if got := r.ledger.delivered(); got != delivered {
			t.Errorf("%d in the ledger, want %d", got, delivered)
		}
	}
	r.failing.Store(true)
	expect(string(body), http.StatusInternalServerError, 0)
	r.failing.Store(false)
	expect("no JSON", http.StatusBadRequest, 0)
	expect(`[{"id": 3, "customer": "kite"}]`, http.StatusUnprocessableEntity, 0)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	expect(string(body), 0, 0) // connection refused
	if err := r.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(string(body), http.StatusNoContent, 2)
	expect(string(body), http.StatusNoContent, 2)
	if got := r.ledger.tally([]int64{1, 2}); got.Duplicates != 2 {
		t.Errorf("tally %+v, want 2 duplicates", got)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

func TestTheTableFitsATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newScreen(&out, true)
	s.introduce(0, "127.0.0.1:65535")
	s.introduce(10*time.Minute, "127.0.0.1:65535")
	everyLine := line{region: "north", rate: 99999, committed: 99_999_999, delivered: 99_999_999, inFlight: 16384, parked: 9999, down: 99}
	for _, scene := range (&trouble{}).scenes() {
		s.draw([]line{everyLine}, scene.text)
	}
	s.conclude(Tally{}, 0)
	for text := range strings.SplitSeq(out.String(), "\n") {
		text = strings.TrimSuffix(text, "\x1b[K")
		if i := strings.Index(text, "A"); strings.HasPrefix(text, "\x1b[") {
			text = text[i+1:]
		}
		if n := len([]rune(text)); n > 80 {
			t.Errorf("%d columns: %s", n, text)
		}
	}
	if !strings.Contains(out.String(), "\x1b[5A") {
		t.Error("the table is not drawn in place")
	}
}
