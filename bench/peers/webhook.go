package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	// HookRequests is the number of requests in flight.
	HookRequests = 64

	// HookPath is the path of the receiver of webhooks.
	HookPath = "/hooks"
)

// ToWebhook is Outrider with the minimal configuration of a webhook.
var ToWebhook = Outrider{
	label: OutriderName,
	Settings: fmt.Sprintf("package outrider, own table to a webhook with the default settings: max_requests %d, one request per group at a time, "+
		"Standard Webhooks v1, poison, retry and timeout, metrics", HookRequests),
	Config: `
admin: {listen: "127.0.0.1:0"}
sources: {app: {type: postgres, url: {postgres}}}
destinations: {partner: {type: webhook, url: "{url}` + HookPath + `", secrets: ["` + measure.WebhookSecret + `"], allow_private: true}}
routes: {hooks: {from: app, to: partner, start: beginning}}
`,
	table: ownTable{},
}

// hookFloor is the minimal work that sends the same rows as the same requests: it
// reads pages of the floor's table and keeps no order.
type hookFloor struct{ floor }

// HookFloor is the floor of the scenario webhooks.
var HookFloor = hookFloor{}

func (hookFloor) About() string {
	return fmt.Sprintf("SELECT ... WHERE position > $1 ORDER BY position LIMIT %d with pgx, and POSTs with the same headers, "+
		"signature included, on %d connections; the cursor is stored after each page; keeps no order and retries nothing", floorPage, HookRequests)
}

func (hookFloor) Disorderly() {}

// hook is a row in flight.
type hook struct {
	id, kind, position string
	payload            []byte
	page               *sync.WaitGroup
}

func (f hookFloor) Relay(ctx context.Context, j measure.Job) error {
	db, err := pgx.Connect(ctx, j.Postgres)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	hooks := make(chan hook, floorPage)
	client := newPoster(HookRequests)
	defer client.close()
	sending := context.WithoutCancel(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	for range HookRequests {
		g.Go(func() error { return f.send(sending, stop, client, j.URL+HookPath, hooks) })
	}
	g.Go(func() error {
		defer close(hooks)
		err := f.read(ctx, db, hooks)
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return err
	})
	return g.Wait()
}

// read reads page after page until ctx ends. It stores the cursor one page late, so
// that sending never waits for it.
func (f hookFloor) read(ctx context.Context, db *pgx.Conn, hooks chan<- hook) error {
	var before, last int64
	sent := &sync.WaitGroup{}
	for ctx.Err() == nil {
		page := &sync.WaitGroup{}
		next, err := f.page(ctx, db, last, page, hooks)
		if err != nil {
			return err
		}
		sent.Wait()
		if last > before {
			if _, err := db.Exec(context.WithoutCancel(ctx), "UPDATE bench_cursor SET position = $1", last); err != nil {
				return err
			}
		}
		if next == last {
			pause(ctx)
		}
		before, last, sent = last, next, page
	}
	return nil
}

// page passes on the rows after a position and returns the position of the last.
func (hookFloor) page(ctx context.Context, db *pgx.Conn, last int64, page *sync.WaitGroup, hooks chan<- hook) (int64, error) {
	rows, err := db.Query(ctx, "SELECT position, id, type, payload FROM "+floorTable+
		" WHERE position > $1 ORDER BY position LIMIT $2", last, floorPage)
	if err != nil {
		return last, err
	}
	defer rows.Close()
	for rows.Next() {
		v := rows.RawValues() // valid until the next row
		last = int64(binary.BigEndian.Uint64(v[0]))
		page.Add(1)
		select {
		case hooks <- hook{string(v[1]), string(v[2]), strconv.FormatInt(last, 10), append([]byte(nil), v[3]...), page}:
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
	return last, rows.Err()
}

// send posts the rows one after the other. After a failure it calls stop and only
// marks the remaining rows as done.
func (hookFloor) send(ctx context.Context, stop context.CancelFunc, client *poster, url string, hooks <-chan hook) (failed error) {
	signer := measure.NewWebhookSigner()
	for h := range hooks {
		if failed == nil {
			if failed = client.post(ctx, url, h.header(signer), h.payload); failed != nil {
				stop()
			}
		}
		h.page.Done()
	}
	return failed
}

// header returns the headers that Outrider also sends.
func (h *hook) header(signer *measure.WebhookSigner) http.Header {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	values := []string{h.id, timestamp, signer.Sign(h.id, timestamp, h.payload), h.id, h.kind, h.position, "hooks/00", "application/json", "bench"}
	header := make(http.Header, len(values))
	for i, name := range [...]string{"webhook-id", "webhook-timestamp", "webhook-signature", "Idempotency-Key", "Outrider-Type",
		"Outrider-Position", "Outrider-Lane", "Content-Type", "User-Agent"} {
		header[name] = values[i : i+1 : i+1]
	}
	return header
}
