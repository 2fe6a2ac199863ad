package router_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router"
)

// journal is a source of the program's own: a list of rows. Rows become visible in the
// order of their positions, so a position is all that a cursor needs. A table whose
// transactions commit in another order needs snapshots, see [adapters.Cursor].
type journal struct{ rows []adapters.Row }

func newJournal(texts ...string) *journal {
	j := &journal{}
	for i, text := range texts {
		row := adapters.Row{ID: fmt.Sprint("order-", i+1), Type: "order.placed", Group: "customer-1",
			Payload: []byte(text), Position: int64(i + 1)}
		row.Slot = adapters.SlotOf(row.Group, row.ID)
		j.rows = append(j.rows, row)
	}
	return j
}

func (*journal) Check(context.Context) error                     { return nil }
func (*journal) Validate(context.Context, adapters.Cursor) error { return nil }
func (*journal) Close() error                                    { return nil }

func (*journal) Table(context.Context) (adapters.Table, error) {
	return adapters.Table{}, nil // cursors hold anywhere
}

func (*journal) Anchored(_ context.Context, c adapters.Cursor) (adapters.Cursor, error) {
	return c, nil // rows are known by their position alone
}

func (j *journal) Start(_ context.Context, at adapters.Start) (adapters.Cursor, error) {
	if at.Kind == adapters.StartEnd {
		return adapters.Cursor{Position: int64(len(j.rows))}, nil
	}
	return adapters.Cursor{}, nil // a start by time is left out here
}

func (j *journal) Fetch(
	_ context.Context, reads []adapters.Read, take func(read int, row *adapters.Row) bool,
) ([]adapters.ReadResult, error) {
	results := make([]adapters.ReadResult, len(reads))
	for i, read := range reads {
		end := int64(len(j.rows))
		if read.Until != nil {
			end = min(end, read.Until.Position)
		}
		results[i] = adapters.ReadResult{Next: adapters.Cursor{Position: max(end, read.From.Position)}, Drained: true}
		page, taken := &adapters.Page{From: read.From}, 0
		for at := read.From.Position; at < end; at++ {
			row := j.rows[at]
			if row.Slot != read.Slot {
				continue
			}
			if taken == read.Limit { // the next read begins behind the last row that was taken
				results[i] = adapters.ReadResult{Next: adapters.Cursor{Position: at}}
				break
			}
			if row.Page = page; !take(i, &row) {
				return nil, nil
			}
			taken++
		}
	}
	return results, nil
}

// till is a destination of the program's own. It takes batches of up to ten messages
// of a group, and ends the example after so many.
type till struct {
	left int
	done func()
}

func (*till) Address(*message.Message) (string, error) { return "till", nil }
func (*till) Close() error                             { return nil }

func (*till) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 10, MaxGroups: 1, MaxRequests: 1, Static: true}
}

func (t *till) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	for _, msg := range batch {
		fmt.Println(msg.Metadata.Get(outbox.MetaGroup), string(msg.Payload))
	}
	if t.left -= len(batch); t.left <= 0 {
		t.done()
	}
	return nil // all of them are delivered
}

// A router with a source and a destination of the program's own. What it must remember
// is in an SQLite file.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	state, err := statestore.New(ctx, statestore.Config{Path: filepath.Join(dir, "state.db")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = state.Close() }()
	if err := state.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}
	r, err := router.New(router.Config{Logger: slog.New(slog.DiscardHandler)}, []router.Route{{
		Name: "orders", Source: newJournal("milk", "bread", "salt"), State: state,
		Destination: &till{left: 3, done: stop},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Run(ctx)) // nil: everything in flight was finished and written down
	// Output:
	// customer-1 milk
	// customer-1 bread
	// customer-1 salt
	// <nil>
}

// What is wrong with the routes is reported before anything runs, all at once.
func ExampleNew_mistakes() {
	_, err := router.New(router.Config{}, []router.Route{{Name: "orders", Source: newJournal()}})
	fmt.Println(err)
	// Output:
	// route "orders": needs a destination
	// route "orders": needs a state store for its cursor and its parked messages
}
