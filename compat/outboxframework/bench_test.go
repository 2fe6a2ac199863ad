package outboxframework_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// timed is a hot path that notes when COMMIT has returned.
type timed struct {
	outbox.HotPath
	at *time.Time
}

type timedInsert struct {
	outbox.HotInsert
	at *time.Time
}

func (h timed) Announce(insert string) outbox.HotInsert {
	in := h.HotPath.Announce(insert)
	if in == nil {
		return nil
	}
	return timedInsert{in, h.at}
}

func (i timedInsert) Committed() {
	*i.at = time.Now()
	i.HotInsert.Committed()
}

// BenchmarkCommitToListener measures the time from the return of COMMIT to the call of the listener, by the hot path: one event after the other.
//
//	make test TESTFLAGS='-run NONE -bench CommitToListener -benchtime 5000x'
func BenchmarkCommitToListener(b *testing.B) {
	url := testenv.Postgres(b)
	cfg, err := outboxframework.NewSettings().Config(url)
	fatal(b, err)
	_, err = operate.Init(b.Context(), cfg)
	fatal(b, err)
	registry, arrived := listeners.New(), make(chan time.Time, 1)
	listeners.Listen(registry, userCreated, func(context.Context, user) error {
		arrived <- time.Now()
		return nil
	})
	relay, err := outrider.New(cfg, outrider.WithListeners(outboxframework.Destination, registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	fatal(b, err)
	var committed time.Time
	hot, err := relay.HotPath(outboxframework.Source)
	fatal(b, err)
	client, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework", Hot: timed{hot, &committed}})
	fatal(b, err)
	pool, err := pgxpool.New(b.Context(), url)
	fatal(b, err)
	b.Cleanup(pool.Close)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	defer func() { stop(); fatal(b, <-ended) }()
	<-relay.Ready()
	n := 0
	publish := func() time.Duration {
		n++
		e, err := userCreated.New(user{"heron"}).Aggregate("USER", string(rune('a'+n%20))).Build()
		fatal(b, err)
		fatal(b, outbox.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error { return client.Publish(ctx, tx, e) }))
		return (<-arrived).Sub(committed)
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
}

func fatal(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
