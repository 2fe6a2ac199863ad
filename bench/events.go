package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// eventTable is what every peer's own table is filled from.
	eventTable = "bench_event"

	// itemBacklog is a copy of [eventTable], for tables that are filled again for every run.
	itemBacklog = "bench_backlog"

	// minPayload is room for the fields of a payload, in bytes.
	minPayload = 140

	// payloadStart begins every payload, and is nowhere else in one.
	payloadStart = `{"sequence": `

	// commitRows is how many rows a transaction of the writer had.
	commitRows = 1000
)

// writeEvents creates [eventTable] with the backlog: rows in turn of all groups,
// payloads that no compression makes small.
func writeEvents(ctx context.Context, db *pgx.Conn, rows, groups, size int) error {
	_, err := db.Exec(ctx, `CREATE TABLE `+eventTable+` (
		position bigint PRIMARY KEY, id text NOT NULL, message_group text NOT NULL, payload json NOT NULL)`)
	if err != nil {
		return err
	}
	events := newEvents(rows, groups, size)
	n := 0
	_, err = db.CopyFrom(ctx, pgx.Identifier{eventTable}, []string{"position", "id", "message_group", "payload"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if n == rows {
				return nil, nil
			}
			n++
			group, body := events.event(n)
			return []any{int64(n), uuid.NewString(), group, body}, nil
		}))
	if err != nil {
		return fmt.Errorf("write %s: %w", eventTable, err)
	}
	return nil
}

// events makes what messages are made of.
type events struct {
	random *rand.Rand
	noise  []byte
	groups int
	size   int
}

// newEvents returns events that are the same whenever the seed is.
func newEvents(seed, groups, size int) *events {
	random := rand.New(rand.NewPCG(uint64(seed), uint64(size))) //nolint:gosec // filler, the same in every run
	return &events{random: random, noise: make([]byte, size), groups: groups, size: size}
}

// event returns the group and the payload of the nth message: a JSON object of
// the size in bytes.
func (e *events) event(n int) (group string, payload []byte) {
	for i := range e.noise {
		e.noise[i] = byte(e.random.Uint32())
	}
	group = fmt.Sprintf("order-%d", n%e.groups)
	var b strings.Builder
	fmt.Fprintf(&b, payloadStart+`%d, "type": "order.created", "order": %q, "amount": %d, "currency": "EUR", "note": "`, n, group, n%9973)
	room := max(0, e.size-b.Len()-len(`"}`))
	b.WriteString(hex.EncodeToString(e.noise)[:room])
	b.WriteString(`"}`)
	return group, []byte(b.String())
}

// fillFromEvents runs the INSERT ... SELECT for all rows of [eventTable], in
// their order and in transactions of [commitRows], then drops the table.
func fillFromEvents(ctx context.Context, db *pgx.Conn, insert string) error {
	if err := fillFrom(ctx, db, eventTable, insert); err != nil {
		return err
	}
	_, err := db.Exec(ctx, "DROP TABLE "+eventTable)
	return err
}

// fillFrom does the same from a copy of [eventTable], which stays.
func fillFrom(ctx context.Context, db *pgx.Conn, table, insert string) error {
	// A procedural block, because only that can commit in the middle.
	_, err := db.Exec(ctx, fmt.Sprintf(`DO $fill$
		BEGIN
			FOR low IN 1 .. (SELECT coalesce(max(position), 0) FROM %[1]s) BY %[2]d LOOP
				%[3]s FROM %[1]s WHERE position BETWEEN low AND low + %[2]d - 1 ORDER BY position;
				COMMIT;
			END LOOP;
		END $fill$`, table, commitRows, insert))
	if err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	return nil
}

// keepEvents makes a copy of [eventTable] with the name [itemBacklog], for peers
// whose rows are written again for every run.
func keepEvents(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "CREATE TABLE "+itemBacklog+" AS SELECT * FROM "+eventTable+" ORDER BY position; "+
		"ALTER TABLE "+itemBacklog+" ADD PRIMARY KEY (position)")
	return err
}
