package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// queueRow is a row of a queue table. Its status is "pending", "processing",
// "done" or "dead".
type queueRow struct {
	adapters.Row
	status   string
	token    string // of the claim, while it is being processed
	since    time.Time
	attempts int
	text     string
	claims   int       // how often it was claimed
	due      time.Time // zero: at once
}

// queueTable is a queue table with a claim status and no owner. Several instances may use it.
type queueTable struct {
	timeout time.Duration
	dues    bool                            // it has the time of the next attempt
	blind   bool                            // its claims do not look at Match and Bytes
	delay   func() time.Duration            // of a statement, before and after it
	fail    func(what string) error         // before a statement is carried out
	broken  func() error                    // afterwards: the outcome is unknown to the caller
	retried func(id string, attempts int)   // sees every Retry and Dead
	locked  func(id string) bool            // by another session: a settle leaves the row out
	refuses func(adapters.ClaimResult) bool // a row by itself, as a trigger does; nil: none
	refused map[*adapters.Claim]bool        // whose result was refused alone

	mu       sync.Mutex
	rows     []*queueRow
	serial   int
	claims   int
	limits   []int // of the claims that brought something
	puts     int
	problems []string
	lending  *lending
}

func newQueueTable() *queueTable {
	none := func() error { return nil }
	return &queueTable{timeout: 5 * time.Minute, delay: func() time.Duration { return 0 },
		fail: func(string) error { return nil }, broken: none, refused: map[*adapters.Claim]bool{}, retried: func(string, int) {}, locked: func(string) bool { return false }}
}

func (q *queueTable) complain(format string, args ...any) {
	q.problems = append(q.problems, fmt.Sprintf(format, args...))
}

func (q *queueTable) add(row adapters.Row) {
	q.mu.Lock()
	defer q.mu.Unlock()
	row.Position = int64(len(q.rows) + 1)
	q.rows = append(q.rows, &queueRow{Row: row, status: "pending"})
}

// statuses counts the rows by status.
func (q *queueTable) statuses() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[string]int{}
	for _, r := range q.rows {
		out[r.status]++
	}
	return out
}

func (q *queueTable) get(id string) queueRow {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.rows {
		if r.ID == id {
			return *r
		}
	}
	return queueRow{}
}

// steal puts a row back that somebody is processing, as if it were stuck.
func (q *queueTable) steal(pick func(*queueRow) bool) (stolen int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.rows {
		if r.status == "processing" && pick(r) {
			r.status, r.token = "pending", ""
			stolen++
		}
	}
	return stolen
}

// memQueue is one instance's use of a queueTable. It is strict: whatever the
// contract forbids is noted as a problem.
type memQueue struct {
	*queueTable
	claiming, writing sync.Mutex // each held by one goroutine only
	live              map[*adapters.Claim]*queueRow
	written           map[*adapters.Claim]bool // settled by a statement whose answer was lost
	misplaced         []*adapters.Claim        // taken by a claim whose answer was lost
	bringing          int                      // rows of the claim that is under way
	dead              bool                     // the process is: nothing works any more
}

func (q *queueTable) open() *memQueue {
	return &memQueue{queueTable: q, live: map[*adapters.Claim]*queueRow{}, written: map[*adapters.Claim]bool{}}
}

func (m *memQueue) Check(context.Context) error { return nil }
func (m *memQueue) Close() error                { return nil }

// statement runs f as a database would.
func (m *memQueue) statement(what string, single *sync.Mutex, f func()) error {
	if single != nil {
		if !single.TryLock() {
			m.mu.Lock()
			m.complain("%s is called by two goroutines", what)
			m.mu.Unlock()
			single.Lock()
		}
		defer single.Unlock()
	}
	time.Sleep(m.delay())
	m.mu.Lock()
	err := m.fail(what)
	if m.dead {
		err = errDead
	}
	if err == nil {
		f()
		err = m.broken()
	}
	m.mu.Unlock()
	time.Sleep(m.delay())
	return err
}

func (m *memQueue) Claim(_ context.Context, c adapters.ClaimRequest) (out []*adapters.Row, err error) {
	var taken []*adapters.Claim
	err = m.statement("Claim", &m.claiming, func() {
		if out, taken = m.claim(c); len(out) > 0 {
			m.limits = append(m.limits, c.Limit)
		}
		m.bringing = len(out)
	})
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.bringing = 0
	}()
	if err != nil {
		m.mu.Lock()
		m.misplaced = append(m.misplaced, taken...) // the answer is lost: they go back with the next claim
		m.mu.Unlock()
		return nil, err
	}
	return out, nil
}

func (m *memQueue) claim(c adapters.ClaimRequest) (out []*adapters.Row, taken []*adapters.Claim) {
	m.claims++
	if c.Limit < 1 || c.PerGroup < 1 || c.Bytes < 1 {
		m.complain("claimed with limit %d, per group %d, bytes %d", c.Limit, c.PerGroup, c.Bytes)
	}
	for _, lost := range m.misplaced {
		if r := m.live[lost]; r.token == lost.Token {
			r.status, r.token = "pending", ""
		}
		delete(m.live, lost)
	}
	m.misplaced = nil
	held := map[*queueRow]bool{}
	for c, r := range m.live {
		held[r] = held[r] || r.token == c.Token
	}
	except := map[string]bool{}
	for _, r := range c.ExceptRows {
		except[r.Key] = true
	}
	cut, perGroup, bytes := map[string]bool{}, map[string]int{}, int64(0)
	for _, g := range c.Except {
		cut[g] = true
	}
	for _, r := range m.rows {
		switch {
		case len(out) == c.Limit:
			return out, taken
		case r.status == "done", r.status == "dead", except[r.ID], !slices.Contains(c.Slots, adapters.SlotOf(r.Group, r.ID)):
			continue
		case !m.blind && !c.Match(&r.Row):
			continue
		case cut[r.Group] && r.Group != "":
			continue
		case r.status == "processing":
			cut[r.Group] = cut[r.Group] || !held[r]
			continue
		case time.Now().Before(r.due):
			cut[r.Group] = true
			continue
		}
		if n := int64(len(r.Payload)); !m.blind && len(out) > 0 && bytes+n > c.Bytes {
			return out, taken
		}
		bytes += int64(len(r.Payload))
		if perGroup[r.Group]++; perGroup[r.Group] == c.PerGroup {
			cut[r.Group] = true
		}
		row := m.take(r)
		taken = append(taken, row.Claim)
		out = append(out, row)
	}
	return out, taken
}

// take marks a row as claimed.
func (m *memQueue) take(r *queueRow) *adapters.Row {
	m.serial++
	row := r.Row
	row.Payload = m.lending.lend(r.Payload)
	row.Claim = &adapters.Claim{Table: "t", Key: r.ID, Token: strconv.Itoa(m.serial), Attempts: r.attempts}
	r.status, r.token, r.since = "processing", row.Claim.Token, time.Now()
	r.claims++
	m.live[row.Claim] = r
	return &row
}

func (m *memQueue) Settle(_ context.Context, results []adapters.ClaimResult) (lost []*adapters.Claim, err error) {
	m.mu.Lock()
	refused := m.refuses != nil && slices.ContainsFunc(results, m.refuses)
	if refused && len(results) == 1 {
		m.refused[results[0].Claim] = true
	}
	m.mu.Unlock()
	if refused {
		return nil, fmt.Errorf("%w: it is frozen", adapters.ErrRefused)
	}
	skipped := &adapters.LockedError{}
	err = m.statement("Settle", &m.writing, func() {
		for _, r := range results {
			if m.locked(r.Claim.Key) {
				skipped.Claims = append(skipped.Claims, r.Claim)
				continue
			}
			if !m.settle(r) {
				lost = append(lost, r.Claim)
			}
		}
	})
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, r := range results {
			if !slices.Contains(skipped.Claims, r.Claim) {
				delete(m.live, r.Claim)
				delete(m.written, r.Claim)
			}
		}
		if len(skipped.Claims) > 0 {
			return lost, skipped
		}
	}
	return lost, err
}

func (m *memQueue) settle(r adapters.ClaimResult) bool {
	row := m.live[r.Claim]
	if row == nil {
		m.complain("%s is settled (%v) with a claim that is not live", r.Claim.Key, r.Outcome)
		return false
	}
	if m.written[r.Claim] {
		return true
	}
	if row.token != r.Claim.Token {
		return false
	}
	m.written[r.Claim] = true
	row.token, row.attempts = "", r.Attempts
	switch r.Outcome {
	case outbox.OutcomeDelivered, outbox.OutcomeSkipped:
		row.status = "done"
	case outbox.OutcomeRetry, outbox.OutcomeDead:
		row.status, row.text = "pending", r.Error
		if m.dues {
			row.due = r.At
		}
		if r.Outcome == outbox.OutcomeDead {
			row.status = "dead"
		}
		m.retried(row.ID, r.Attempts)
		if r.Error == "" || r.Attempts < 0 || r.Outcome == outbox.OutcomeDead && r.Attempts == 0 {
			m.complain("%s: %v with %d attempts and the error %q", row.ID, r.Outcome, r.Attempts, r.Error)
		}
	case outbox.OutcomeReleased:
		row.status = "pending"
		m.puts++
	case outbox.OutcomeUnavailable:
		m.complain("%s is settled as unreachable", row.ID)
	}
	return true
}

// KeepsDue implements [adapters.Queue].
func (m *memQueue) KeepsDue() bool { return m.dues }

// Coverage implements [adapters.Queue]: every claim reads the whole queue.
func (m *memQueue) Coverage() adapters.Coverage {
	return adapters.Coverage{Since: time.Now(), Due: m.due(time.Now())}
}

// due is when the first pending row is due, of those that become due after a time; zero: there is none.
func (m *memQueue) due(after time.Time) (first time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if r.status == "pending" && r.due.After(after) && (first.IsZero() || r.due.Before(first)) {
			first = r.due
		}
	}
	return first
}

func (m *memQueue) Extend(_ context.Context, claims []*adapters.Claim) (lost []*adapters.Claim, err error) {
	err = m.statement("Extend", &m.writing, func() {
		for _, c := range claims {
			row := m.live[c]
			switch {
			case row == nil:
				m.complain("%s is extended with a claim that is not live", c.Key)
			case row.token != c.Token:
				lost = append(lost, c)
			default:
				m.serial++
				c.Token = strconv.Itoa(m.serial)
				row.token, row.since = c.Token, time.Now()
			}
		}
	})
	return lost, err
}

func (m *memQueue) Recover(context.Context) (n int, err error) {
	err = m.statement("Recover", nil, func() {
		for _, r := range m.rows {
			if r.status == "processing" && time.Since(r.since) > m.timeout {
				r.status, r.token = "pending", ""
				n++
			}
		}
	})
	return n, err
}

// holds is the number of rows that are marked as claimed here.
func (m *memQueue) holds() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c, row := range m.live {
		if row.status == "processing" && row.token == c.Token {
			n++
		}
	}
	return n
}

var errTable = errors.New("the table cannot be reached")
