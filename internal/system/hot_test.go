package system_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// sold is an event: the number of a sale of its shop, from 1.
const sold outbox.Type[int] = "sold"

const shops = 12

// errUndo has a sale rolled back.
var errUndo = errors.New("rolled back")

// sell sells in a shop, whose row has writers take turns, and publishes the events, in one transaction. With undo it is rolled back.
func sell(ctx context.Context, pool *pgxpool.Pool, client *outbox.Client, events int, undo bool) error {
	shop := rand.IntN(shops)
	err := outbox.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, "UPDATE shop SET sold = sold + $2 WHERE id = $1 RETURNING sold", shop, events).Scan(&n); err != nil {
			return err
		}
		for i := range events {
			e, err := sold.New(n - events + 1 + i).Group(fmt.Sprint("shop-", shop)).Build()
			if err != nil {
				return err
			}
			if err := client.Publish(ctx, nil, e); err != nil {
				return err
			}
		}
		if undo {
			return errUndo
		}
		return nil
	})
	if undo && errors.Is(err, errUndo) {
		return nil
	}
	return err
}

// sales are the messages that listeners got, by group.
type sales struct {
	mu  sync.Mutex
	got map[string][]int
}

func (s *sales) note(group string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[group] = append(s.got[group], n)
}

func (s *sales) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, numbers := range s.got {
		n += len(numbers)
	}
	return n
}

// compare waits until as much has come as was committed, and compares it with that once the programs have ended.
func (s *sales) compare(t *testing.T, pool *pgxpool.Pool, end func()) {
	t.Helper()
	want := map[string][]int{}
	rows, err := pool.Query(t.Context(), "SELECT message_group, payload::text::int FROM outrider_outbox ORDER BY position")
	must(t, err)
	var group string
	var n, all int
	_, err = pgx.ForEachRow(rows, []any{&group, &n}, func() error {
		want[group] = append(want[group], n)
		all++
		return nil
	})
	must(t, err)
	for deadline := time.Now().Add(2 * time.Minute); s.count() < all && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	end()
	s.mu.Lock()
	defer s.mu.Unlock()
	for group, numbers := range want {
		if got := s.got[group]; !slices.Equal(got, numbers) {
			i := 0
			for i < min(len(got), len(numbers)) && got[i] == numbers[i] {
				i++
			}
			t.Errorf("%s got %d events, %d were committed; from number %d on: %v", group, len(got), len(numbers), i+1, got[i:min(len(got), i+8)])
		}
	}
}

// hotProgram is a relay and the client that has its hot path.
type hotProgram struct {
	t      *testing.T
	relay  *outrider.Outrider
	client *outbox.Client
	ended  chan error
	cancel context.CancelFunc
}

// hotConfig has a source in url, with more of its keys and of the route's.
func hotConfig(url, source, route string) (*outrider.Config, error) {
	return outrider.ParseConfig("test", fmt.Appendf(nil, `
lease: 3s
sources: {app: {type: postgres, url: %q, %s}}
destinations: {here: {type: listeners}}
routes: {all: {from: app, to: here, middleware: [{poison: {}}, {retry: {attempts: 1000, base: 1ms, max: 5ms}}], %s}}
`, url, source, route))
}

func newHotProgram(t *testing.T, cfg *outrider.Config, listen func(context.Context, int) error) *hotProgram {
	t.Helper()
	registry := listeners.New()
	listeners.Listen(registry, sold, listen)
	relay, err := outrider.New(cfg, outrider.WithListeners("here", registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	hot, err := relay.HotPath("app")
	must(t, err)
	client, err := outbox.NewClient(outbox.ClientConfig{Hot: hot})
	must(t, err)
	return &hotProgram{t: t, relay: relay, client: client, ended: make(chan error, 1)}
}

func (p *hotProgram) start() *hotProgram {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.ended <- p.relay.Run(ctx) }()
	<-p.relay.Ready()
	return p
}

func (p *hotProgram) stop() {
	p.t.Helper()
	p.cancel()
	if err := <-p.ended; err != nil {
		p.t.Error(err)
	}
}

// hotTables makes the tables of a test, and a pool for its writers.
func hotTables(t *testing.T, cfg *outrider.Config, url string) *pgxpool.Pool {
	t.Helper()
	_, err := operate.Init(t.Context(), cfg)
	must(t, err)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), fmt.Sprintf("CREATE TABLE shop AS SELECT i AS id, 0 AS sold FROM generate_series(0, %d) i", shops-1))
	must(t, err)
	return pool
}

func groupOf(ctx context.Context) string {
	e, _ := listeners.EnvelopeOf(ctx)
	return e.Group()
}

// Two programs with hot paths on one table, a third one that only writes, and operators: each committed event arrives once, in the order of its
// group, while listeners fail, transactions are rolled back, the route and groups are paused and resumed, one program reloads, one stops and
// another one begins.
func TestG1_G2_G3_HotPathsAmongOperatorsAndInstances(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	config := func(window int) *outrider.Config {
		cfg, err := hotConfig(url, "poll: {min: 2ms, max: 20ms}", fmt.Sprint("window: ", window))
		must(t, err)
		return cfg
	}
	cfg := config(64)
	pool := hotTables(t, cfg, url)
	s := &sales{got: map[string][]int{}}
	listen := func(ctx context.Context, n int) error {
		if rand.IntN(50) == 0 {
			return errors.New("not now")
		}
		s.note(groupOf(ctx), n)
		return nil
	}
	plain, err := outbox.NewClient(outbox.ClientConfig{})
	must(t, err)
	a, b, c := newHotProgram(t, cfg, listen).start(), newHotProgram(t, cfg, listen).start(), newHotProgram(t, cfg, listen)
	op, err := operate.NewOperator(t.Context(), cfg)
	must(t, err)
	defer func() { must(t, op.Close()) }()

	var writers sync.WaitGroup
	var stopped sync.Once
	writing, enough := context.WithCancel(t.Context())
	defer stopped.Do(enough)
	for i, client := range []*outbox.Client{a.client, a.client, b.client, b.client, c.client, plain} {
		writers.Go(func() {
			for n := 0; writing.Err() == nil || n < 50; n++ {
				if err := sell(t.Context(), pool, client, 1+rand.IntN(3), rand.IntN(10) == 0); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(rand.IntN(4+i)) * time.Millisecond)
			}
		})
	}
	for i := range testenv.Size(2, 20) {
		_, err := op.Pause(t.Context(), adapters.Pause{Route: "all", Group: "shop-3"})
		must(t, err)
		must(t, a.relay.Reload(t.Context(), config(32+i)))
		_, err = op.Pause(t.Context(), adapters.Pause{Route: "all"})
		must(t, err)
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		_, err = op.Resume(t.Context(), adapters.Pause{Route: "all", By: "test"})
		must(t, err)
		_, err = op.Resume(t.Context(), adapters.Pause{Route: "all", Group: "shop-3", By: "test"})
		must(t, err)
	}
	b.stop()
	c.start()
	stopped.Do(enough)
	writers.Wait()
	s.compare(t, pool, func() { a.stop(); c.stop() })
	t.Logf("%d events", s.count())
}

// A relay that hardly polls delivers what its process commits, however little room its lanes have and whatever the order of its route.
// What is rolled back never arrives, whole or to a savepoint.
func TestG13_TheHotPathAlone(t *testing.T) {
	t.Parallel()
	for name, route := range map[string]string{"order group": "window: 64", "a window of one": "window: 1", "order global": "order: global"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testenv.Postgres(t)
			cfg, err := hotConfig(url, "poll: {min: 1h, max: 1h}", route)
			must(t, err)
			pool := hotTables(t, cfg, url)
			s := &sales{got: map[string][]int{}}
			p := newHotProgram(t, cfg, func(ctx context.Context, n int) error {
				s.note(groupOf(ctx), n)
				return nil
			}).start()
			var writers sync.WaitGroup
			for range 3 {
				writers.Go(func() {
					for i := range 40 {
						if err := sell(t.Context(), pool, p.client, 1+i%3, i%5 == 0); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			writers.Wait()
			must(t, outbox.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
				inner, err := tx.Begin(ctx)
				must(t, err)
				e, err := sold.New(-1).Group("shop-0").Build()
				must(t, err)
				must(t, p.client.Publish(ctx, inner, e))
				return inner.Rollback(ctx)
			}))
			s.compare(t, pool, p.stop)
		})
	}
}
