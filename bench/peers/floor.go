package peers

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/outbox"
)

// floor is the minimal work that brings the same rows into Kafka as the same records
// (with Outrider's key, payload and headers, so that the broker has the same work):
// a loop that reads pages of a table by position and produces them, without
// Watermill, middleware and retries, and with a cursor that loses late commits.
type floor struct {
	pause time.Duration // after a read that found nothing; 0: 10 ms
	rows  int           // of a read; 0: floorPage
}

// Floor is the floor of the scenario drain.
var Floor = floor{}

const (
	floorTable    = "bench_floor"
	floorPage     = 10_000 // rows of a read; 2,000 to 20,000 were tried, and this was fastest
	floorHeaders  = 6
	floorBuffered = 50_000 // records in flight; more did not make it faster
)

func (floor) Name() string { return "floor" }

func (floor) About() string {
	return fmt.Sprintf("SELECT ... WHERE position > $1 ORDER BY position LIMIT %d with pgx, and franz-go "+
		"(the same records as outrider's, headers included; acks all, idempotent); the cursor is stored after each page's acks", floorPage)
}

func (floor) Create(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, `CREATE TABLE bench_cursor (position bigint NOT NULL);
		CREATE TABLE `+floorTable+` (position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL,
			type text NOT NULL, message_group text NOT NULL, payload json NOT NULL, occurred_at timestamptz NOT NULL)`)
	if err != nil {
		return err
	}
	return measure.FillFromEvents(ctx, db, `
		INSERT INTO `+floorTable+` (id, type, message_group, payload, occurred_at)
		SELECT id, 'order.created', message_group, payload, now()`)
}

func (floor) Rewind(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "TRUNCATE bench_cursor"); err != nil {
		return err
	}
	_, err := db.Exec(ctx, "INSERT INTO bench_cursor VALUES (0)")
	return err
}

func (floor) Backlog() string {
	return "SELECT message_group, payload::text FROM " + floorTable + " ORDER BY position"
}

// page is a page of rows in flight.
type page struct {
	last  int64 // position
	acks  sync.WaitGroup
	error atomic.Pointer[error]
}

func (f floor) Relay(ctx context.Context, j measure.Job) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(j.Brokers...), kgo.DefaultProduceTopic(j.Topic),
		kgo.DisableClientMetrics(), // they delay Close by up to a second
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(floorBuffered))
	if err != nil {
		return err
	}
	defer cl.Close()
	db, err := pgx.Connect(ctx, j.Postgres)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()

	pages := make(chan *page, floorBuffered/floorPage)
	stored := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel() // without a cursor there is no point in going on
		stored <- f.store(context.WithoutCancel(ctx), j, pages)
	}()
	err = f.read(ctx, db, cl, pages)
	close(pages)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, <-stored)
}

// read produces page after page until ctx ends.
func (f floor) read(ctx context.Context, db *pgx.Conn, cl *kgo.Client, pages chan<- *page) error {
	var last int64
	if err := db.QueryRow(ctx, "SELECT position FROM bench_cursor").Scan(&last); err != nil {
		return err
	}
	for {
		p := &page{last: last}
		n, err := f.page(ctx, db, cl, p)
		if err != nil {
			return err
		}
		if n == 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(cmp.Or(f.pause, 10*time.Millisecond)):
			}
			continue
		}
		last = p.last
		select {
		case pages <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// page reads one page and hands it to the client while it arrives.
func (f floor) page(ctx context.Context, db *pgx.Conn, cl *kgo.Client, p *page) (n int, err error) {
	most := cmp.Or(f.rows, floorPage)
	rows, err := db.Query(ctx, "SELECT position, id, type, message_group, payload, occurred_at FROM "+floorTable+
		" WHERE position > $1 ORDER BY position LIMIT $2", p.last, most)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	acked := func(_ *kgo.Record, err error) {
		if err != nil {
			p.error.CompareAndSwap(nil, &err)
		}
		p.acks.Done()
	}
	records := make([]kgo.Record, most)
	headers := make([]kgo.RecordHeader, 0, most*floorHeaders)
	var arena []byte
	scratch, lane := make([]byte, 0, 64), []byte("orders/00")
	for rows.Next() {
		v := rows.RawValues() // valid until the next row
		size := len(v[1]) + len(v[2]) + len(v[3]) + len(v[4]) + 64
		if cap(arena)-len(arena) < size {
			arena = make([]byte, 0, max(size, min(most<<9, 1<<20)))
		}
		p.last = int64(binary.BigEndian.Uint64(v[0]))
		r := &records[n]
		var id, kind, position, occurred []byte
		arena, id = cut(arena, v[1])
		arena, kind = cut(arena, v[2])
		arena, r.Key = cut(arena, v[3])
		arena, r.Value = cut(arena, v[4])
		arena, position = cut(arena, strconv.AppendInt(scratch[:0], p.last, 10))
		arena, occurred = cut(arena, timeOf(v[5]).AppendFormat(scratch[:0], time.RFC3339Nano))
		from := len(headers)
		headers = append(headers,
			kgo.RecordHeader{Key: "_watermill_message_uuid", Value: id},
			kgo.RecordHeader{Key: outbox.MetaType, Value: kind},
			kgo.RecordHeader{Key: outbox.MetaGroup, Value: r.Key},
			kgo.RecordHeader{Key: outbox.MetaPosition, Value: position},
			kgo.RecordHeader{Key: outbox.MetaLane, Value: lane},
			kgo.RecordHeader{Key: outbox.MetaOccurredAt, Value: occurred})
		r.Headers = headers[from:len(headers):len(headers)]
		p.acks.Add(1)
		cl.Produce(ctx, r, acked)
		n++
	}
	return n, rows.Err()
}

// timeOf decodes PostgreSQL's binary timestamptz: microseconds since 2000.
func timeOf(b []byte) time.Time {
	const epoch = 946_684_800_000_000 // 2000-01-01 in Unix microseconds
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b)) + epoch).UTC()
}

// cut appends a copy of b to the arena and returns both.
func cut(arena, b []byte) (rest, copied []byte) {
	at := len(arena)
	arena = append(arena, b...)
	return arena, arena[at:len(arena):len(arena)]
}

// store moves the cursor over the pages whose records are all acknowledged.
func (floor) store(ctx context.Context, j measure.Job, pages <-chan *page) error {
	db, err := pgx.Connect(ctx, j.Postgres)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(ctx) }()
	for p := range pages {
		p.acks.Wait()
		if failed := p.error.Load(); failed != nil {
			return *failed
		}
		if _, err := db.Exec(ctx, "UPDATE bench_cursor SET position = $1", p.last); err != nil {
			return err
		}
	}
	return nil
}
