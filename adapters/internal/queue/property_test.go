package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// fleet is two processes on one table, and what they hold.
type fleet struct {
	m     *memory
	e     [2]*Engine[*memory]
	rows  [2]map[string]*adapters.Row
	draws *rapid.T
}

// TestG1_G2_G3_ClaimsAgainstTheModel: two processes claim, extend, settle, put back and lose rows of one table in any order, with transactions of
// which nothing is known. No row is held twice, and none is claimed before an earlier unfinished one of its group that its process does not hold.
// In the end everything is delivered.
func TestG1_G2_G3_ClaimsAgainstTheModel(t *testing.T) {
	rapid.Check(t, func(draws *rapid.T) {
		f := &fleet{m: &memory{name: "t"}, draws: draws}
		for i := range f.e {
			f.rows[i] = map[string]*adapters.Row{}
			f.e[i] = newMemory(t, marking(), func(b *Backend[*memory]) {
				b.PageRows = rapid.IntRange(1, 5).Draw(draws, "page")
				b.ClaimRows = rapid.IntRange(2, 50).Draw(draws, "rows of a claim")
			}, f.m)
		}
		draws.Repeat(map[string]func(*rapid.T){
			"insert": func(d *rapid.T) {
				group := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(d, "group")
				f.m.insert(group, len(f.m.rows))
				if rapid.Bool().Draw(d, "newer") && group != "" {
					f.m.newer = append(f.m.newer, "="+group)
				}
			},
			"claim":  func(d *rapid.T) { f.claim(d, rapid.IntRange(0, 1).Draw(d, "process")) },
			"settle": func(d *rapid.T) { f.settle(d, rapid.IntRange(0, 1).Draw(d, "process")) },
			"extend": func(d *rapid.T) { f.extend(d, rapid.IntRange(0, 1).Draw(d, "process")) },
		})
		f.drain()
	})
}

// outcome is how a transaction ends.
func outcome(d *rapid.T) error {
	return rapid.SampledFrom([]error{nil, nil, errCut, errRefused}).Draw(d, "outcome")
}

func (f *fleet) claim(d *rapid.T, i int) {
	r := everything(rapid.IntRange(1, 6).Draw(d, "limit"))
	r.PerGroup = rapid.IntRange(0, 2).Draw(d, "per group")
	r.Except = rapid.SampledFrom([][]string{nil, {"a"}}).Draw(d, "except")
	f.m.takeErr = outcome(d)
	rows, err := f.e[i].Claim(f.draws.Context(), r)
	if f.m.takeErr = nil; err != nil && len(rows) > 0 {
		d.Fatalf("%d rows with %v", len(rows), err)
	}
	f.mayBeClaimed(d, i, rows)
	if len(rows) > r.Limit {
		d.Fatalf("claimed %d rows of %d", len(rows), r.Limit)
	}
}

// mayBeClaimed holds rows, and checks that each could be claimed.
func (f *fleet) mayBeClaimed(d *rapid.T, i int, rows []*adapters.Row) {
	for _, row := range rows {
		if f.rows[0][row.ID] != nil || f.rows[1][row.ID] != nil {
			d.Fatalf("row %s is held already", row.ID)
		}
		at := f.m.row(row.ID)
		for _, before := range f.m.rows {
			if before.group != "" && before.group == at.group && before.created < at.created && before.unfinished() && f.rows[i][before.key] == nil {
				d.Fatalf("process %d claimed %s before %s, which is %s", i, row.ID, before.key, before.status)
			}
		}
		f.rows[i][row.ID] = row
	}
}

// held are the rows of a process, in order.
func (f *fleet) held(i int) (rows []*adapters.Row) {
	for _, row := range f.rows[i] {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *adapters.Row) int { return f.m.row(a.ID).compare(f.m.row(b.ID)) })
	return rows
}

// settle settles the first rows of each group, or puts the last ones back.
func (f *fleet) settle(d *rapid.T, i int) {
	rows := f.held(i)
	if len(rows) == 0 {
		return
	}
	to := rapid.SampledFrom([]outbox.Outcome{outbox.OutcomeDelivered, outbox.OutcomeDead, outbox.OutcomeReleased}).Draw(d, "result")
	if to != outbox.OutcomeReleased {
		rows = rows[:1]
	} else { // what is behind goes back with it
		rows = slices.DeleteFunc(rows, func(r *adapters.Row) bool { return r.Group != rows[0].Group })
	}
	f.m.settleErr = outcome(d)
	for range 2 { // it is given again
		lost, err := f.e[i].Settle(f.draws.Context(), results(to, rows...))
		if f.m.settleErr = nil; len(lost) > 0 {
			d.Fatalf("%d results are lost", len(lost))
		}
		if err == nil {
			break
		}
	}
	for _, row := range rows {
		delete(f.rows[i], row.ID)
	}
}

func (f *fleet) extend(d *rapid.T, i int) {
	var claims []*adapters.Claim
	for _, row := range f.held(i) {
		claims = append(claims, row.Claim)
	}
	f.m.renewErr = outcome(d)
	if lost, _ := f.e[i].Extend(f.draws.Context(), claims); len(lost) > 0 {
		d.Fatalf("%d claims are lost", len(lost))
	}
	f.m.renewErr = nil
}

// drain delivers everything.
func (f *fleet) drain() {
	for deadline := time.Now().Add(10 * time.Second); ; {
		left := 0
		for _, r := range f.m.rows {
			if r.unfinished() {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			f.draws.Fatalf("%d rows are left: %s", left, fmt.Sprint(f.m.rows[0]))
		}
		for i, e := range f.e {
			rows, err := e.Claim(f.draws.Context(), everything(100))
			if err != nil {
				f.draws.Fatal(err)
			}
			f.mayBeClaimed(f.draws, i, rows)
			if all := f.held(i); len(all) > 0 {
				if lost, err := e.Settle(f.draws.Context(), results(outbox.OutcomeDelivered, all...)); err != nil || len(lost) > 0 {
					f.draws.Fatalf("%d lost, %v", len(lost), err)
				}
				clear(f.rows[i])
			}
		}
	}
}
