package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/outbox"
)

// errCut is an error that no server has answered with.
var errCut = errors.New("the connection broke")

// memory is a table in memory, and its driver.
type memory struct {
	name  string
	kind  string
	rows  []*memoryRow
	pages int           // that were read
	read  int           // entries of those
	size  int           // entries of a page
	pause time.Duration // that a page takes
	newer []string
	time  int64 // the last stamp
	large int64 // payloads that are larger are left out
	fills int   // payloads that were read by themselves

	takeErr, settleErr, renewErr error  // of the next transaction, which is carried out unless it is errRefused
	reading, between             func() // run before rows are read, and marked

	fenced func(*adapters.ClaimResult) bool // another process has the lane of a result; nil: none does
}

// errRefused is an error with which a transaction is rolled back.
var errRefused = errors.New("rolled back")

type memoryRow struct {
	key     string
	group   string // "": none
	created int
	status  string
	stamp   time.Time // of a mark
	ours    bool
	payload string
	due     time.Time
}

func (m *memory) ID() string                     { return m.name }
func (m *memory) Describe(context.Context) error { return nil }
func (m *memory) Group(id string) string         { return GroupOf(m.table(), id[1:]) }
func (m *memory) table() layout.Table            { return layout.Table{Name: m.name, Kind: m.kind} }

func (r *memoryRow) id() string {
	if r.group == "" {
		return Alone
	}
	return "=" + r.group
}

func (r *memoryRow) unfinished() bool { return r.status == "waiting" || r.status == "marked" }

func (r *memoryRow) compare(o *memoryRow) int {
	return cmp.Or(strings.Compare(r.id(), o.id()), cmp.Compare(r.created, o.created), strings.Compare(r.key, o.key))
}

func (m *memory) insert(group string, created int) *memoryRow {
	r := &memoryRow{key: fmt.Sprintf("k%06d", len(m.rows)), group: group, created: created, status: "waiting", payload: "{}"}
	m.rows = append(m.rows, r)
	return r
}

func (m *memory) Page(_ context.Context, from Position) (page Page, err error) {
	time.Sleep(m.pause)
	var all []*memoryRow
	for _, r := range m.rows {
		created, _ := from.Created.(int)
		key, _ := from.Key.(string)
		at := &memoryRow{group: strings.TrimPrefix(strings.TrimPrefix(from.ID, "="), Alone), created: created, key: key}
		switch {
		case !r.unfinished(), from.In && r.id() != from.ID, !from.In && r.id() <= from.ID:
		case from.In && from.Created != nil && r.compare(at) <= 0:
		default:
			all = append(all, r)
		}
	}
	slices.SortFunc(all, (*memoryRow).compare)
	full := len(all) >= m.size
	for _, r := range all[:min(len(all), m.size)] {
		e := Entry{ID: r.id(), Created: r.created, Key: r.key, Text: r.key, Slot: adapters.SlotOf("", r.key), Marked: r.status == "marked", Ours: r.ours, Stamp: r.stamp}
		if !r.due.IsZero() {
			e.Wait = time.Until(r.due)
		}
		page.Entries = append(page.Entries, e)
	}
	m.pages, m.read = m.pages+1, m.read+len(page.Entries)
	page.Close(from, full)
	return page, nil
}

func (m *memory) Newer(context.Context) (ids []string, err error) {
	ids, m.newer = m.newer, nil
	return ids, nil
}

// transact runs f, and undoes it if the transaction is to be refused.
func (m *memory) transact(outcome *error, f func() error) error { //nolint:gocritic // it is reset
	before := make([]memoryRow, len(m.rows))
	for i, r := range m.rows {
		before[i] = *r
	}
	err := cmp.Or(f(), *outcome)
	*outcome = nil
	if errors.Is(err, errRefused) {
		for i := range before {
			*m.rows[i] = before[i]
		}
	}
	return err
}

func (m *memory) Take(_ context.Context, f func(Taker) error) error {
	return m.transact(&m.takeErr, func() error { return f(m) })
}

func (m *memory) row(key any) *memoryRow {
	return m.rows[slices.IndexFunc(m.rows, func(r *memoryRow) bool { return r.key == key })]
}

func (m *memory) Read(_ context.Context, chosen []*Entry, _ int64) (map[string]Found, error) {
	if m.reading != nil {
		m.reading()
	}
	found := map[string]Found{}
	for _, e := range chosen {
		r := m.row(e.Key)
		if r.status != "waiting" {
			continue
		}
		f := Found{ID: r.id(), Row: m.decoded(r)}
		if size := int64(len(r.payload)); m.large > 0 && size > m.large {
			f.Row, f.Left = nil, size
		}
		found[e.Text] = f
	}
	return found, nil
}

func (m *memory) decoded(r *memoryRow) *adapters.Row {
	group := ""
	if r.group != "" {
		group = m.Group(r.id())
	}
	return &adapters.Row{ID: r.key, Group: group, Slot: adapters.SlotOf(group, r.key), Payload: []byte(r.payload)}
}

func (m *memory) Fill(_ context.Context, e *Entry, f *Found) (bool, error) {
	m.fills++
	f.Row, f.Left = m.decoded(m.row(e.Key)), 0
	return true, nil
}

func (m *memory) Mark(_ context.Context, rows []Picked) (time.Time, map[string]bool, error) {
	if m.between != nil {
		m.between()
	}
	m.time++
	stamp, missing := time.UnixMilli(m.time), map[string]bool{}
	for _, p := range rows {
		r := m.row(p.Key)
		if missing[p.Text] = r.status != "waiting"; !missing[p.Text] {
			r.status, r.stamp, r.ours = "marked", stamp, true
			delete(missing, p.Text)
		}
	}
	return stamp, missing, nil
}

func (m *memory) Unmark(_ context.Context, keys []any, stamp time.Time) ([]any, error) {
	for _, key := range keys {
		if r := m.row(key); r.status == "marked" && r.ours && r.stamp.Equal(stamp) {
			r.status = "waiting"
		}
	}
	return nil, nil
}

func (m *memory) Recover(_ context.Context, held func(string) bool, _ int) (n int, err error) {
	for _, r := range m.rows {
		if r.status == "marked" && !held(r.key) {
			r.status, n = "waiting", n+1
		}
	}
	return n, nil
}

func (m *memory) Marked(_ context.Context, most int) (n int, longest time.Duration, err error) {
	for _, r := range m.rows {
		if r.status == "marked" {
			n, longest = n+1, time.Minute
		}
	}
	return min(n, most+1), longest, nil
}

// settle writes results.
func settleMemory(marks bool) func(context.Context, []*Settled[*memory]) error {
	return func(_ context.Context, rows []*Settled[*memory]) error {
		return rows[0].Table.transact(&rows[0].Table.settleErr, func() error {
			for _, r := range rows {
				row := r.Table.row(r.Lease.Key)
				ours := row.status == "waiting" && (r.Table.fenced == nil || !r.Table.fenced(r.ClaimResult))
				if marks {
					ours = row.status == "marked" && row.ours && r.Lease.MarkedAt(row.stamp)
				}
				want := map[Change]string{Done: "done", DeadLetter: "dead"}[r.Effect.Change]
				if want == "" {
					want = "waiting"
				}
				r.Done = ours || r.Lease.Unknown && row.status == want
				if ours {
					row.status = want
				}
			}
			return nil
		})
	}
}

// newMemory is an engine over tables in memory.
func newMemory(t testing.TB, l *layout.Queue, change func(*Backend[*memory]), tables ...*memory) *Engine[*memory] {
	t.Helper()
	var e *Engine[*memory]
	b := Backend[*memory]{Name: "memory queue", Layout: l, PageRows: 4, ClaimRows: 1000,
		Settle:   settleMemory(!l.Claimless()),
		Answered: func(err error) bool { return errors.Is(err, errRefused) }, Refused: func(err error) error { return err },
		Wrap: func(table, what string, err error) error {
			if err == nil {
				return nil
			}
			return fmt.Errorf("%s: %s: %w", table, what, err)
		}}
	b.Renew = func(_ context.Context, rows []*Settled[*memory]) error {
		m := rows[0].Table
		was := make([][]time.Time, len(rows))
		for i, r := range rows {
			was[i] = r.Lease.Stamps()
		}
		m.time++
		e.Expect(time.UnixMilli(m.time), rows...)
		return m.transact(&m.renewErr, func() error {
			for i, r := range rows {
				row := m.row(r.Lease.Key)
				switch {
				case l.Claimless():
					r.Done = row.status == "waiting"
				case row.status == "marked" && row.ours && slices.ContainsFunc(was[i], row.stamp.Equal):
					r.Done, row.stamp = true, time.UnixMilli(m.time)
				}
			}
			return nil
		})
	}
	if change != nil {
		change(&b)
	}
	for _, m := range tables {
		m.size = b.PageRows
		b.Tables = append(b.Tables, m.table())
	}
	e, err := NewEngine(b, tables)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// marking and remembering are layouts with and without a status for rows that are being processed.
func marking() *layout.Queue { return layout.FlowCatalyst().Queue }
func remembering(t testing.TB) *layout.Queue {
	t.Helper()
	l := *layout.FlowCatalyst().Queue
	l.Statuses.Processing, l.Columns.Claimed = "", ""
	if !l.Claimless() {
		t.Fatal("the layout has claims")
	}
	return &l
}

func everything(limit int) adapters.ClaimRequest {
	r := adapters.ClaimRequest{Limit: limit}
	for slot := range adapters.Slots {
		r.Slots = append(r.Slots, slot)
	}
	return r
}

// claim claims, and returns the keys too.
func claimKeys(t testing.TB, e *Engine[*memory], req adapters.ClaimRequest) (rows []*adapters.Row, keys []string) {
	t.Helper()
	rows, err := e.Claim(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		keys = append(keys, row.ID)
	}
	return rows, keys
}

func results(outcome outbox.Outcome, rows ...*adapters.Row) (all []adapters.ClaimResult) {
	for _, row := range rows {
		all = append(all, adapters.ClaimResult{Claim: row.Claim, Outcome: outcome})
	}
	return all
}
