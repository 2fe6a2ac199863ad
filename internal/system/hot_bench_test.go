package system_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// BenchmarkCommitToListener measures the time from the return of COMMIT to the call of the listener in this process, one event after the
// other, with Outrider's own table: by the hot path, by Wake, by the server's WAL, and by polling.
//
//	make test TESTFLAGS='-run NONE -bench CommitToListener -benchtime 5000x'
func BenchmarkCommitToListener(b *testing.B) {
	pause, _ := time.ParseDuration(os.Getenv("OUTRIDER_BENCH_PAUSE")) // between events; default: none
	for _, by := range []string{"hot", "wake", "replication", "poll"} {
		b.Run(by, func(b *testing.B) {
			mode := "poll"
			if by == "replication" {
				mode = by
			}
			url := testenv.Postgres(b)
			relay, arrived := listening(b, url, mode)
			var committed time.Time
			hot, err := relay.HotPath("app")
			must(b, err)
			cfg := outbox.ClientConfig{}
			if by == "hot" {
				cfg.Hot = timedHot{hot, &committed}
			}
			client, err := outbox.NewClient(cfg)
			must(b, err)
			pool, err := pgxpool.New(b.Context(), url)
			must(b, err)
			b.Cleanup(pool.Close)
			n := 0
			publish := func() time.Duration {
				n++
				e, err := outbox.New("created").JSON(map[string]string{"name": "heron"}).Group(string(rune('a' + n%20))).Build()
				must(b, err)
				must(b, outbox.InTx(b.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
					if by == "wake" {
						must(b, outbox.AfterCommit(ctx, func(context.Context) { committed = time.Now(); relay.Wake("app") }))
					}
					return client.Publish(ctx, tx, e)
				}))
				if by != "hot" && by != "wake" {
					committed = time.Now()
				}
				took := (<-arrived).Sub(committed)
				time.Sleep(pause)
				return took
			}
			for range 100 {
				publish()
			}
			var times []time.Duration
			for b.Loop() {
				times = append(times, publish())
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-us")
			b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-us")
		})
	}
}

// listening is a relay whose one listener says when it was called.
func listening(b *testing.B, url, wake string) (*outrider.Outrider, <-chan time.Time) {
	b.Helper()
	cfg, err := outrider.ParseConfig("test", []byte(`
sources: {app: {type: postgres, url: "`+url+`", wake: `+wake+`}}
destinations: {here: {type: listeners}}
routes: {all: {from: app, to: here}}
`))
	must(b, err)
	_, err = operate.Init(b.Context(), cfg)
	must(b, err)
	registry, arrived := listeners.New(), make(chan time.Time, 1)
	listeners.Listen(registry, outbox.Type[map[string]string]("created"), func(context.Context, map[string]string) error {
		arrived <- time.Now()
		return nil
	})
	relay, err := outrider.New(cfg, outrider.WithListeners("here", registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(b, err)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	b.Cleanup(func() { stop(); must(b, <-ended) })
	<-relay.Ready()
	return relay, arrived
}

// timedHot is a hot path that notes when COMMIT has returned.
type timedHot struct {
	outbox.HotPath
	at *time.Time
}

type timedHotInsert struct {
	outbox.HotInsert
	outbox.HotVersions
	at *time.Time
}

func (h timedHot) Announce(insert string) outbox.HotInsert {
	in := h.HotPath.Announce(insert)
	if in == nil {
		return nil
	}
	return timedHotInsert{in, in.(outbox.HotVersions), h.at}
}

func (i timedHotInsert) Committed() {
	*i.at = time.Now()
	i.HotInsert.Committed()
}
