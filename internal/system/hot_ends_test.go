package system_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// hotEnd has the SQL of a function of InTx after publishing, and the contents of the table afterwards.
type hotEnd struct {
	name, sql string   // statements; {t} and {id} are the table and the column of ids
	payloads  []string // that are committed of "1", and delivered
	ended     bool     // InTx says that the function ended the transaction
}

var hotEnds = []hotEnd{
	{"nothing", "", []string{"1"}, false},
	{"rollback", "ROLLBACK", nil, true},
	{"rollback and chain", "ROLLBACK AND CHAIN", nil, true},
	{"rollback and begin", "ROLLBACK; BEGIN", nil, true},
	{"commit and begin", "COMMIT; BEGIN", []string{"1"}, true},
	{"prepare", "PREPARE TRANSACTION 'h'", nil, true},
	{"savepoint", "SAVEPOINT s; SELECT 1; ROLLBACK TO s", []string{"1"}, false},
	{"delete", "DELETE FROM {t} WHERE {id} = '{this}'", nil, false},
	{"payload changed", "UPDATE {t} SET payload = '777' WHERE {id} = '{this}'", []string{"777"}, false},
	{"id changed", "UPDATE {t} SET {id} = 'x{this}' WHERE {id} = '{this}'", []string{"1"}, false},
}

// Whatever SQL a function runs after publishing, the listener gets the committed messages, and InTx reports no commit without
// one.
func TestG1_G3_TheHotPathDeliversWhatWasCommitted(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	admins, err := pgx.Connect(t.Context(), server.URL())
	must(t, err)
	_, err = admins.Exec(t.Context(), "ALTER SYSTEM SET max_prepared_transactions = 4")
	must(t, err)
	must(t, admins.Close(t.Context()))
	server.Stop("fast")
	server.Start()
	pool, err := pgxpool.New(t.Context(), server.URL())
	must(t, err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { must(t, db.Close()) })

	for _, layout := range []string{"outrider", "outbox-framework"} {
		h := newHotEnds(t, server.URL(), layout)
		drivers := map[string]func(context.Context, func(context.Context, func(string) error) error) error{
			"pgx": func(ctx context.Context, fn func(context.Context, func(string) error) error) error {
				return outbox.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
					return fn(ctx, func(s string) error { _, err := tx.Exec(ctx, s); return err })
				})
			},
			"sql": func(ctx context.Context, fn func(context.Context, func(string) error) error) error {
				return outbox.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
					return fn(ctx, func(s string) error { _, err := tx.ExecContext(ctx, s); return err })
				})
			},
		}
		for driver, inTx := range drivers {
			for _, end := range hotEnds {
				t.Run(layout+"/"+driver+"/"+end.name, func(t *testing.T) {
					group := driver + " " + end.name
					committed := false
					err := inTx(t.Context(), func(ctx context.Context, exec func(string) error) error {
						must(t, outbox.AfterCommit(ctx, func(context.Context) { committed = true }))
						e := h.event(t, group, 1)
						must(t, h.client.Publish(ctx, nil, e))
						for s := range strings.SplitSeq(end.sql, "; ") {
							if s != "" {
								must(t, exec(strings.NewReplacer("{t}", h.table, "{id}", h.id, "{this}", e.ID()).Replace(s)))
							}
						}
						return nil
					})
					if errors.Is(err, outbox.ErrOutcomeUnknown) != end.ended || committed == end.ended || !end.ended && err != nil {
						t.Errorf("InTx returned %v; hooks of the commit ran: %v", err, committed)
					}
					must(t, inTx(t.Context(), func(ctx context.Context, _ func(string) error) error {
						return h.client.Publish(ctx, nil, h.event(t, group, 2))
					}))
					if got := h.until(group, "2"); !slices.Equal(got, append(slices.Clip(end.payloads), "2")) {
						t.Errorf("delivered %v, committed %v and 2", got, end.payloads)
					}
					if end.name == "prepare" {
						_, err := pool.Exec(t.Context(), "ROLLBACK PREPARED 'h'")
						must(t, err)
					}
				})
			}
		}
	}
}

// hotEndings is a relay with a hot path, and what its listener got.
type hotEndings struct {
	client    *outbox.Client
	table, id string

	mu      sync.Mutex
	changed *sync.Cond
	got     map[string][]string
}

func newHotEnds(t *testing.T, url, layout string) *hotEndings {
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources: {app: {type: postgres, url: %q, layout: %s, poll: {min: 100ms, max: 300ms}}}
state: {schema: %s}
destinations: {here: {type: listeners}}
routes: {all: {from: app, to: here}}
`, url, layout, "state_"+layout[:6]))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	h := &hotEndings{table: outbox.DefaultTable, id: "id", got: map[string][]string{}}
	h.changed = sync.NewCond(&h.mu)
	if layout == "outbox-framework" {
		h.table, h.id = "outbox_event", "event_id"
	}
	registry := listeners.New()
	listeners.Listen(registry, listeners.Any, func(_ context.Context, e outbox.Envelope) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got[e.AggregateID()] = append(h.got[e.AggregateID()], string(e.Payload()))
		h.changed.Broadcast()
		return nil
	})
	relay, err := outrider.New(cfg, outrider.WithListeners("here", registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	hot, err := relay.HotPath("app")
	must(t, err)
	h.client, err = outbox.NewClient(outbox.ClientConfig{Hot: hot, Layout: layout})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	t.Cleanup(func() { stop(); must(t, <-ended) })
	<-relay.Ready()
	return h
}

func (h *hotEndings) event(t *testing.T, group string, payload int) outbox.Envelope {
	t.Helper()
	b := outbox.New("sold").JSON(payload).Aggregate("Shop", group)
	if h.table == outbox.DefaultTable {
		b = b.Group(group)
	}
	e, err := b.Build()
	must(t, err)
	return e
}

// until returns what has come of a group once the payload is among it.
func (h *hotEndings) until(group, payload string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !slices.Contains(h.got[group], payload) {
		h.changed.Wait()
	}
	return h.got[group]
}
