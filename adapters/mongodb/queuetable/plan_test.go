package queuetable

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// commands notes what a queue sends.
type commands struct {
	mu       sync.Mutex
	sent     []bson.Raw
	returned int // documents
}

func (c *commands) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.sent = append(c.sent, slices.Clone(e.Command))
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, batch := range []string{"firstBatch", "nextBatch"} {
				if docs, ok := e.Reply.Lookup("cursor", batch).ArrayOK(); ok {
					values, _ := docs.Values() // of a reply that the driver has read
					c.returned += len(values)
				}
			}
		},
	}
}

// take returns what was noted since the last time.
func (c *commands) take() (sent []bson.Raw, returned int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent, returned = c.sent, c.returned
	c.sent, c.returned = nil, 0
	return sent, returned
}

// plans returns the parts of a command that find documents, each with what it is told to use: find, count and delete have one, update
// has several.
func plans(t *testing.T, command bson.Raw) (all []string) {
	t.Helper()
	one := func(of bson.Raw, filter string) {
		all = append(all, fmt.Sprintf("%s by %s", of.Lookup(filter), of.Lookup("hint")))
	}
	name := firstName(t, command)
	switch name {
	case "find":
		one(command, "filter")
	case "aggregate": // a count
		stages, err := command.Lookup("pipeline").Array().Values()
		must(t, err)
		all = append(all, fmt.Sprintf("%s by %s", stages[0].Document().Lookup("$match"), command.Lookup("hint")))
	case "update":
		updates, err := command.Lookup("updates").Array().Values()
		must(t, err)
		for _, u := range updates {
			one(u.Document(), "q")
		}
	case "getMore", "isMaster":
	default:
		t.Errorf("the queue sends %s, which the test does not know", name)
	}
	return all
}

func firstName(t *testing.T, command bson.Raw) string {
	t.Helper()
	elements, err := command.Elements()
	must(t, err)
	return elements[0].Key()
}

// examined is how many documents and index entries a server reads for a command; ok is false for a server that does not say.
func (e *env) examined(command bson.Raw) (n int64, ok bool) {
	e.t.Helper()
	var d bson.D
	must(e.t, bson.Unmarshal(command, &d))
	d = slices.DeleteFunc(d, func(f bson.E) bool {
		return f.Key[0] == '$' || f.Key == "lsid" || f.Key == "txnNumber" || f.Key == "cursor" && d[0].Key == "aggregate"
	})
	if d[0].Key == "aggregate" {
		d = append(d, bson.E{Key: "cursor", Value: bson.D{}})
	}
	raw, err := e.db.RunCommand(e.t.Context(), bson.D{{Key: "explain", Value: d}, {Key: "verbosity", Value: "executionStats"}}).Raw()
	if err != nil {
		return 0, false
	}
	for _, at := range [][]string{{"executionStats"}, {"stages", "0", "$cursor", "executionStats"}} {
		keys, known := raw.Lookup(append(slices.Clone(at), "totalKeysExamined")...).AsInt64OK()
		docs, also := raw.Lookup(append(slices.Clone(at), "totalDocsExamined")...).AsInt64OK()
		if known && also {
			return keys + docs, true
		}
	}
	return 0, false
}

// cost is what a question costs.
type cost struct {
	returned int      // documents
	examined int64    // documents and index entries, if the server says; otherwise 0
	plans    []string // which statements, by which index
}

// work is what a relay does with a collection, with what each step costs. In the end the documents are as they were.
func (e *env) work(t *testing.T, q *Queue, sent *commands, waiting int) map[string]cost {
	t.Helper()
	ctx := t.Context()
	var rows []*adapters.Row
	costs := map[string]cost{}
	for _, does := range []struct {
		what string
		ask  func() error
	}{
		{"a claim", func() (err error) {
			if rows, err = q.Claim(ctx, adapters.ClaimRequest{Slots: lanes(), Limit: 1000}); err == nil && len(rows) != waiting {
				err = fmt.Errorf("claimed %d documents, want %d", len(rows), waiting)
			}
			return err
		}},
		{"a claim that finds nothing", func() error {
			_, err := q.Claim(ctx, adapters.ClaimRequest{Slots: lanes(), Limit: 1000})
			return err
		}},
		{"an extension", func() error {
			claims := make([]*adapters.Claim, len(rows))
			for i, row := range rows {
				claims[i] = row.Claim
			}
			_, err := q.Extend(ctx, claims)
			return err
		}},
		{"a recovery", func() error { _, err := q.Recover(ctx); return err }},
		{"a count of claimed documents", func() error { _, err := q.Processing(ctx, 1000); return err }},
		{"a settle", func() error {
			results := make([]adapters.ClaimResult, len(rows))
			for i, row := range rows {
				results[i] = adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeReleased}
			}
			lost, err := q.Settle(ctx, results)
			if len(lost) > 0 {
				err = fmt.Errorf("%d claims were lost", len(lost))
			}
			return err
		}},
		{"a count of unfinished documents", func() error { _, err := q.Unfinished(ctx, 1000); return err }},
		{"documents by age", func() error { _, err := q.WaitingByAge(ctx, adapters.DeadKey{}, 20); return err }},
		{"the oldest that wait", func() error { _, err := q.Waiting(ctx, 20); return err }},
		{"where an event is", func() error { _, err := q.Find(ctx, "w0000", 1); return err }},
	} {
		sent.take()
		must(t, does.ask())
		all, returned := sent.take()
		c := cost{returned: returned}
		for _, command := range all {
			c.plans = append(c.plans, plans(t, command)...)
			if n, ok := e.examined(command); ok {
				c.examined += n
			}
		}
		costs[does.what] = c
	}
	return costs
}

// TestG8_ClaimsAreFlatBesideFinishedDocuments: what a relay does returns as many documents beside finished ones as without them, and each
// statement names an index that finished documents are not in, or that of the keys. A server that explains what it does
// says how much it reads; the one of `make test` reads every document for every statement.
func TestG8_ClaimsAreFlatBesideFinishedDocuments(t *testing.T) {
	t.Parallel()
	const waiting = 60
	e := newEnv(t)
	e.tables = e.tables[:1]
	fill := func(prefix string, status adaptertest.QueueStatus, n int) {
		for at := 0; at < n; at += 5000 {
			rows := make([]adaptertest.QueueRow, min(5000, n-at))
			for i := range rows {
				rows[i] = adaptertest.QueueRow{Table: e.tables[0].Name, Key: fmt.Sprintf("%s%04d", prefix, at+i), Group: fmt.Sprint("g", i%10), Payload: `{"type": "x"}`,
					CreatedAt: time.UnixMilli(int64(at + i)), Status: status}
			}
			e.insert(rows...)
		}
	}
	fill("w", adaptertest.QueueWaiting, waiting)
	sent := &commands{}
	e.at.Monitor = sent.monitor()
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	must(t, q.Check(t.Context()))
	none := e.work(t, q, sent, waiting)
	fill("f", adaptertest.QueueDone, testenv.Size(2_000, 1_000_000))
	many := e.work(t, q, sent, waiting)
	for what, least := range none {
		got := many[what]
		t.Logf("%s: %d documents are returned without finished ones and %d with; %d and %d are examined", what, least.returned, got.returned, least.examined, got.examined)
		if got.returned != least.returned || got.examined > least.examined+5 {
			t.Errorf("%s returns %d and examines %d documents beside finished ones, %d and %d without", what, got.returned, got.examined, least.returned, least.examined)
		}
		if what == "a recovery" || what == "a count of claimed documents" { // these wait for no index: without it they are slower, no more
			continue
		}
		for _, plan := range got.plans {
			if !indexed(plan) {
				t.Errorf("%s leaves it to the server which index it uses: %s", what, plan)
			}
		}
	}
}

// indexed reports whether a statement names an index of unfinished documents, with its condition, or that of the keys.
func indexed(plan string) bool {
	filter, hint, _ := strings.Cut(plan, " by ")
	switch hint {
	case `"` + groupIndex + `"`, `"` + ageIndex + `"`:
		return strings.Contains(filter, `"status": {"$gte": "PENDING"`)
	}
	return strings.HasPrefix(hint, `{"_id":`) && strings.Contains(filter, `"_id": {"$in":`)
}

// TestG8_StatementsOfAClaim: a claim in a long backlog reads a page and the documents that it takes, and marks those. Only the end of the index
// is where documents are read whose group is no text, for which a server reads all that waits.
func TestG8_StatementsOfAClaim(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.tables = e.tables[:1]
	rows := make([]adaptertest.QueueRow, 2*pageDocuments+200)
	for i := range rows {
		rows[i] = adaptertest.QueueRow{Table: e.tables[0].Name, Key: fmt.Sprintf("k%04d", i), Group: fmt.Sprintf("g%02d", i%50), Payload: `{}`, CreatedAt: time.UnixMilli(int64(i)), Status: adaptertest.QueueWaiting}
	}
	e.insert(rows...)
	sent := &commands{}
	e.at.Monitor = sent.monitor()
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	must(t, q.Check(t.Context()))
	for at, want := range [][]string{
		{"find default", "find groups", "find keys", "update", "find keys", "update"}, // in two transactions: how large payloads are is not known yet
		{"find groups", "find keys", "update"},
		{"find groups", "find not text", "find keys", "update"},
	} {
		sent.take()
		rows, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: lanes(), Limit: 100})
		must(t, err)
		var got []string
		all, _ := sent.take()
		for _, command := range all {
			got = append(got, strings.TrimSpace(firstName(t, command)+" "+reads(command)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("claim %d of %d documents sends %q, want %q", at, len(rows), got, want)
		}
	}
}

// reads names what a page or another statement finds.
func reads(command bson.Raw) string {
	switch filter := command.Lookup("filter").String(); {
	case strings.Contains(filter, "$type"):
		return "not text"
	case strings.Contains(filter, `"_id": {"$in"`):
		return "keys"
	case strings.Contains(filter, `"messageGroup": {"$in"`):
		return "default"
	case strings.Contains(filter, "messageGroup"):
		return "groups"
	}
	return ""
}
