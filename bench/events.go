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

	// minPayload is room for the fields of a payload, in bytes.
	minPayload = 120

	// commitRows is how many rows a transaction of the writer had.
	commitRows = 1000
)

// writeEvents creates [eventTable] with the backlog: rows in turn of all groups,
// payloads that no compression makes small.
func writeEvents(ctx context.Context, db *pgx.Conn, rows, groups, size int) error {
	_, err := db.Exec(ctx, `SET synchronous_commit = off; CREATE TABLE `+eventTable+` (
		position bigint PRIMARY KEY, id text NOT NULL, message_group text NOT NULL, payload json NOT NULL)`)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(uint64(rows), uint64(size))) //nolint:gosec // filler, the same in every run
	noise := make([]byte, size)
	n := 0
	_, err = db.CopyFrom(ctx, pgx.Identifier{eventTable}, []string{"position", "id", "message_group", "payload"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if n == rows {
				return nil, nil
			}
			n++
			for i := range noise {
				noise[i] = byte(random.Uint32())
			}
			group := fmt.Sprintf("order-%d", n%groups)
			return []any{int64(n), uuid.NewString(), group, payload(n, group, noise, size)}, nil
		}))
	if err != nil {
		return fmt.Errorf("write %s: %w", eventTable, err)
	}
	return nil
}

// payload returns a JSON object of the given size in bytes.
func payload(n int, group string, noise []byte, size int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"sequence": %d, "order": %q, "amount": %d, "currency": "EUR", "note": "`, n, group, n%9973)
	room := max(0, size-b.Len()-len(`"}`))
	b.WriteString(hex.EncodeToString(noise)[:room])
	b.WriteString(`"}`)
	return []byte(b.String())
}

// fillFromEvents runs the INSERT ... SELECT for all rows of [eventTable], in
// their order and in transactions of [commitRows], then drops the table.
func fillFromEvents(ctx context.Context, db *pgx.Conn, insert string) error {
	// A procedural block, because only that can commit in the middle.
	_, err := db.Exec(ctx, fmt.Sprintf(`DO $fill$
		BEGIN
			FOR low IN 1 .. (SELECT max(position) FROM %[1]s) BY %[2]d LOOP
				%[3]s FROM %[1]s WHERE position BETWEEN low AND low + %[2]d - 1 ORDER BY position;
				COMMIT;
			END LOOP;
		END $fill$`, eventTable, commitRows, insert))
	if err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	_, err = db.Exec(ctx, "DROP TABLE "+eventTable)
	return err
}
