package queuetable

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/outbox"
)

// sent is how many bytes the server has sent through the queue's only connection.
func (e *env) sent(q *Queue) (n int64) {
	e.t.Helper()
	var name string
	must(e.t, q.db.QueryRowContext(context.Background(), "SHOW SESSION STATUS LIKE 'Bytes_sent'").Scan(&name, &n))
	return n
}

// A claim reads no payload that does not fit: neither when it knows only of small ones, nor behind rows that no route wants.
func TestG7_AClaimReadsPayloadsThatFit(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(testing.TB) *env{
		"Talkie":          talkie,
		"OutboxFramework": func(t testing.TB) *env { e := preset(t, layout.OutboxFramework()); e.fenced = false; return e },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := prepare(t)
			e.tables = e.tables[:1]
			q := e.open()
			q.db.SetMaxOpenConns(1)
			e.finished("s", adaptertest.QueueWaiting, 300)
			for claimed := 0; claimed < 300; {
				claimed += len(e.deliver(q, everything(1000)))
			}
			const n, size, most = 30, 1 << 20, 3 << 20
			var rows []adaptertest.QueueRow
			for i := range n {
				rows = append(rows, adaptertest.QueueRow{Table: e.tables[0].Name, Key: fmt.Sprintf("l%08d", i), Group: fmt.Sprint("g", i%10),
					Payload: `{"type": "x", "text": "` + strings.Repeat("x", size) + `"}`, CreatedAt: born.Add(time.Duration(i) * time.Second)})
			}
			e.insert(rows...)
			looked, refused := int64(0), map[string]bool{}
			req := everything(1000)
			req.Bytes, req.Wants = most, 1
			req.Match = func(row *adapters.Row) bool {
				if len(row.Payload) < size {
					t.Errorf("row %s was looked at with %d bytes of its payload, %v", row.ID, len(row.Payload), row.Err)
				}
				looked++
				refused[row.ID] = strings.HasSuffix(row.ID, "5")
				return !refused[row.ID]
			}
			for delivered := 0; delivered < n-3; {
				e.sent(q)
				before := e.sent(q)
				looked = 0
				claimed := e.deliver(q, req)
				if sent := e.sent(q) - before; sent > looked*(size+1<<16)+1<<20 {
					t.Errorf("a claim that looked at %d payloads, and claimed %d, was sent %d bytes", looked, len(claimed), sent)
				}
				if total := len(claimed) * size; total > most {
					t.Errorf("%d rows are claimed, of %d bytes in all", len(claimed), total)
				}
				delivered += len(claimed)
			}
			if len(refused) != n {
				t.Errorf("%d rows were looked at, want %d", len(refused), n)
			}
		})
	}
}

// A list of dead rows reads no payloads where the type of a row is a column.
func TestG7_AListOfDeadRowsReadsNoPayloads(t *testing.T) {
	t.Parallel()
	e := talkie(t)
	const n, size = 20, 100 << 10
	var rows []adaptertest.QueueRow
	for i := range n {
		rows = append(rows, adaptertest.QueueRow{Table: e.tables[0].Name, Key: fmt.Sprint("d", i), Payload: `"` + strings.Repeat("x", size) + `"`,
			CreatedAt: born.Add(time.Duration(i) * time.Second), Status: adaptertest.QueueDead})
	}
	e.insert(rows...)
	q := e.open()
	q.db.SetMaxOpenConns(1)
	for payload, least := range map[bool]int64{false: 0, true: n * size} {
		before := e.sent(q)
		page, err := q.Dead(t.Context(), adapters.DeadFilter{Payload: payload})
		must(t, err)
		sent := e.sent(q) - before
		if len(page) != n || (page[0].Row.Payload != nil) != payload || sent < least || sent > least+200_000 {
			t.Errorf("payloads %v: %d rows, %d bytes were sent", payload, len(page), sent)
		}
	}
}

// deliver claims, and settles what was claimed.
func (e *env) deliver(q *Queue, req adapters.ClaimRequest) []*adapters.Row {
	e.t.Helper()
	rows, err := q.Claim(e.t.Context(), req)
	must(e.t, err)
	results := make([]adapters.ClaimResult, len(rows))
	for i, row := range rows {
		results[i] = adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered}
	}
	lost, err := q.Settle(e.t.Context(), results)
	must(e.t, err)
	if len(lost) > 0 {
		e.t.Errorf("%d claims were lost", len(lost))
	}
	return rows
}
