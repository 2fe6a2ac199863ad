package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// itemFloor is the least that can be done to bring FlowCatalyst's items to its
// API with the same statuses in the table: the original's claim, requests with as
// many items of one group each, and one UPDATE for all that was answered
// meanwhile. There is no order, no retry and no way back for what fails.
type itemFloor struct{ itemTable }

func (itemFloor) name() string { return "floor" }

func (itemFloor) about() string {
	return fmt.Sprintf("the claim of FlowCatalyst's document (UPDATE ... FOR UPDATE SKIP LOCKED ... RETURNING, LIMIT %d) over its index, "+
		"POSTs of at most %d items of a group on %d connections, and COMPLETED in one UPDATE for all that was answered meanwhile; "+
		"keeps no order and retries nothing", itemClaim, itemRequest, itemRequests)
}

func (itemFloor) disorderly() {}

func (f itemFloor) create(ctx context.Context, db *pgx.Conn, _ job) error {
	_, err := db.Exec(ctx, `CREATE TABLE outbox_events (id varchar(13) PRIMARY KEY, type varchar(20) NOT NULL, message_group varchar(255),
			payload text NOT NULL, status varchar(20) NOT NULL, retry_count int NOT NULL DEFAULT 0, created_at timestamp NOT NULL,
			processed_at timestamp, error_message text);
		CREATE INDEX idx_outbox_events_status ON outbox_events (status, message_group, created_at)`)
	if err != nil {
		return err
	}
	return f.fill(ctx, db)
}

// part is the items of one request.
type part struct {
	ids  []string
	body []byte
}

// The parts that wait for a connection, and those that wait to be settled,
// together about what Outrider may have in memory.
const waitingParts = itemMemory / itemRequest / 2

func (f itemFloor) relay(ctx context.Context, j job) error {
	parts, answered := make(chan *part, waitingParts), make(chan *part, waitingParts)
	g, working := errgroup.WithContext(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(working, stop) // what cannot be sent or settled need not be claimed
	g.Go(func() error {
		defer close(parts)
		return f.claim(ctx, working.Done(), j.Postgres, parts)
	})
	g.Go(func() error {
		defer close(answered)
		return f.post(working, j.URL+itemPath, parts, answered)
	})
	g.Go(func() error { return f.settle(working, j.Postgres, answered) })
	return g.Wait()
}

// connect opens a connection that plans as Outrider's do: statistics of such a
// table are always stale.
func (itemFloor) connect(ctx context.Context, url string) (*pgx.Conn, error) {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(ctx, "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off")
	return db, err
}

// claim claims until ctx ends; what it has then is still handed on, unless the
// others have failed.
func (f itemFloor) claim(ctx context.Context, failed <-chan struct{}, url string, parts chan<- *part) error {
	db, err := f.connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	for ctx.Err() == nil {
		claimed, err := f.claimOnce(context.WithoutCancel(ctx), db)
		if err != nil {
			return err
		}
		for _, p := range claimed {
			p.body = append(p.body, ']')
			select {
			case parts <- p:
			case <-failed:
				return nil
			}
		}
		if len(claimed) == 0 {
			pause(ctx)
		}
	}
	return nil
}

// claimOnce makes requests of what one claim returns.
func (itemFloor) claimOnce(ctx context.Context, db *pgx.Conn) (out []*part, err error) {
	rows, err := db.Query(ctx, `WITH selected AS (
			SELECT id FROM outbox_events WHERE status = 'PENDING'
			ORDER BY message_group, created_at LIMIT $1 FOR UPDATE SKIP LOCKED)
		UPDATE outbox_events t SET status = 'PROCESSING', processed_at = now()
		FROM selected s WHERE t.id = s.id RETURNING t.id, t.message_group, t.payload`, itemClaim)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	open := map[string]*part{} // by group
	for rows.Next() {
		v := rows.RawValues() // valid until the next row
		p := open[string(v[1])]
		if p == nil || len(p.ids) == itemRequest {
			p = &part{ids: make([]string, 0, itemRequest), body: make([]byte, 0, itemRequest*(len(v[2])+8))}
			open[string(v[1])] = p
			out = append(out, p)
		}
		separator := byte(',')
		if len(p.ids) == 0 {
			separator = '['
		}
		p.ids = append(p.ids, string(v[0]))
		p.body = append(append(p.body, separator), v[2]...)
	}
	return out, rows.Err()
}

// post sends what comes, on all connections.
func (itemFloor) post(ctx context.Context, url string, parts <-chan *part, answered chan<- *part) error {
	client := newPoster(itemRequests)
	defer client.close()
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer benchmark"}, "User-Agent": {"bench"}}
	g, ctx := errgroup.WithContext(ctx)
	for range itemRequests {
		g.Go(func() error {
			for p := range parts {
				if err := client.post(ctx, url, header, p.body); err != nil {
					return err
				}
				select {
				case answered <- p:
				case <-ctx.Done():
					return nil // the settler has failed
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// settle writes all that was answered since the last time.
func (f itemFloor) settle(ctx context.Context, url string, answered <-chan *part) error {
	db, err := f.connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	for p := range answered {
		ids := p.ids
		for n := len(answered); n > 0; n-- {
			ids = append(ids, (<-answered).ids...)
		}
		tag, err := db.Exec(ctx, "UPDATE outbox_events SET status = 'COMPLETED', processed_at = now() WHERE id = ANY ($1) AND (status = 'PROCESSING') IS TRUE", ids) // IS TRUE: not by the index of statuses
		if err == nil && tag.RowsAffected() != int64(len(ids)) {
			err = errors.New("somebody else changed rows that were claimed")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
