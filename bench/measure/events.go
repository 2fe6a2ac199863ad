package measure

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
	// EventTable holds the backlog, from which every peer fills its own table.
	EventTable = "bench_event"

	// ItemBacklog is a copy of [EventTable], for tables that are filled again for every run.
	ItemBacklog = "bench_backlog"

	// MinPayload is the smallest size of a payload in bytes: all its fields fit.
	MinPayload = 140

	// payloadStart begins every payload and occurs nowhere else in it.
	payloadStart = `{"sequence": `

	// CommitRows is the number of rows in a transaction of the writer.
	CommitRows = 1000
)

// WriteEvents creates [EventTable] with the backlog: the groups take turns, and
// compression does not make the payloads smaller.
func WriteEvents(ctx context.Context, db *pgx.Conn, rows, groups, size int) error {
	_, err := db.Exec(ctx, `CREATE TABLE `+EventTable+` (
		position bigint PRIMARY KEY, id text NOT NULL, message_group text NOT NULL, payload json NOT NULL)`)
	if err != nil {
		return err
	}
	events := NewEvents(rows, groups, size)
	n := 0
	_, err = db.CopyFrom(ctx, pgx.Identifier{EventTable}, []string{"position", "id", "message_group", "payload"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if n == rows {
				return nil, nil
			}
			n++
			group, body := events.Event(n)
			return []any{int64(n), uuid.NewString(), group, body}, nil
		}))
	if err != nil {
		return fmt.Errorf("write %s: %w", EventTable, err)
	}
	return nil
}

// Events makes the groups and payloads of messages.
type Events struct {
	random *rand.Rand
	noise  []byte
	groups int
	size   int
}

// NewEvents returns the same events for the same seed.
func NewEvents(seed, groups, size int) *Events {
	random := rand.New(rand.NewPCG(uint64(seed), uint64(size))) //nolint:gosec // filler, the same in every run
	return &Events{random: random, noise: make([]byte, size), groups: groups, size: size}
}

// Event returns the group and the payload of the nth message: a JSON object of
// the size in bytes.
func (e *Events) Event(n int) (group string, payload []byte) {
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

// FillFromEvents runs the INSERT ... SELECT for all rows of [EventTable], in
// their order and in transactions of [CommitRows], then drops the table.
func FillFromEvents(ctx context.Context, db *pgx.Conn, insert string) error {
	if err := FillFrom(ctx, db, EventTable, insert); err != nil {
		return err
	}
	_, err := db.Exec(ctx, "DROP TABLE "+EventTable)
	return err
}

// FillFrom does the same from a copy of [EventTable] and keeps the copy.
func FillFrom(ctx context.Context, db *pgx.Conn, table, insert string) error {
	// A procedural block, because only that can commit in the middle.
	_, err := db.Exec(ctx, fmt.Sprintf(`DO $fill$
		BEGIN
			FOR low IN 1 .. (SELECT coalesce(max(position), 0) FROM %[1]s) BY %[2]d LOOP
				%[3]s FROM %[1]s WHERE position BETWEEN low AND low + %[2]d - 1 ORDER BY position;
				COMMIT;
			END LOOP;
		END $fill$`, table, CommitRows, insert))
	if err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	return nil
}

// KeepEvents makes a copy of [EventTable] with the name [ItemBacklog], for peers
// whose rows are written again for every run.
func KeepEvents(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "CREATE TABLE "+ItemBacklog+" AS SELECT * FROM "+EventTable+" ORDER BY position; "+
		"ALTER TABLE "+ItemBacklog+" ADD PRIMARY KEY (position)")
	return err
}
