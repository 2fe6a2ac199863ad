package seeds

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// database is a database with the tables of a document.
type database struct {
	testing.TB
	url  string
	pool *pgxpool.Pool // of PostgreSQL
	exec func(statement string, args ...any)
	text func(query string, args ...any) string // the only value of the only row
}

func onPostgres(t testing.TB, statements string) *database {
	t.Helper()
	d := &database{TB: t, url: testenv.Postgres(t)}
	pool, err := pgxpool.New(context.Background(), d.url)
	must(t, err)
	t.Cleanup(pool.Close)
	d.pool = pool
	d.exec = func(statement string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), statement, args...)
		must(t, err)
	}
	d.text = func(query string, args ...any) (text string) {
		t.Helper()
		must(t, pool.QueryRow(t.Context(), query, args...).Scan(&text))
		return text
	}
	d.exec(statements)
	return d
}

// onMySQL executes statements that end with semicolons.
func onMySQL(t testing.TB, statements string) *database {
	t.Helper()
	d := &database{TB: t, url: testenv.MySQL(t)}
	db, err := mysql.Open(d.url, mysql.TLS{})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	d.exec = func(statement string, args ...any) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement, args...)
		must(t, err)
	}
	d.text = func(query string, args ...any) string {
		t.Helper()
		var text sql.NullString
		must(t, db.QueryRowContext(t.Context(), query, args...).Scan(&text))
		return text.String
	}
	for statement := range strings.SplitSeq(statements, ";") {
		if strings.TrimSpace(statement) != "" {
			d.exec(statement)
		}
	}
	return d
}

// configured parses a configuration and makes what it needs.
func configured(t testing.TB, text string, args ...any) *config.Config {
	t.Helper()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, text, args...))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	return cfg
}

// run runs a relay until stop is called, or the test ends.
func run(t testing.TB, cfg *config.Config, options ...outrider.Option) (_ *outrider.Outrider, stop func()) {
	t.Helper()
	relay, err := outrider.New(cfg, append(options, outrider.WithLogger(slog.New(slog.DiscardHandler)))...)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-relay.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return relay, stop
}

// inbox is a publisher of batches that keeps what it got.
type inbox struct {
	name string
	mu   sync.Mutex
	got  []outbox.Envelope
	most int // events of the largest batch
}

func (i *inbox) Name() string    { return i.name }
func (i *inbox) IsHealthy() bool { return true }

func (i *inbox) PublishBatch(_ context.Context, events []outbox.Envelope) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got, i.most = append(i.got, events...), max(i.most, len(events))
	return nil
}

// events are those so far.
func (i *inbox) events() []outbox.Envelope {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]outbox.Envelope{}, i.got...)
}

// api is a receiver of requests.
type api struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // path, token and body
	refuses  string   // requests with it in their body
}

func newAPI(t testing.TB) *api {
	t.Helper()
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		if err != nil || a.refuses != "" && strings.Contains(string(body), a.refuses) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		a.requests = append(a.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+string(body))
	}))
	t.Cleanup(a.Close)
	return a
}

// has reports whether a request came.
func (a *api) has(request string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.requests, request)
}
