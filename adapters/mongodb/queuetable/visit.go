package queuetable

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

// blockedPause is after how long a group is looked at again if another process
// holds a document of it: there is no signal when that document is released.
const blockedPause = time.Second

// visit is a look at one group in a page.
type visit struct {
	*claim
	table   *table
	run     *run
	next    int   // of its documents
	chosen  []int // of them, those that are to be claimed now
	blocked bool  // nothing behind can be claimed now
}

// pick is a document that is to be claimed.
type pick struct {
	visit *visit
	doc   *document
	row   *adapters.Row
}

// visits are looks at the groups of which the request takes something.
func (c *claim) visits(t *table, runs []*run) (all []*visit) {
	for _, b := range runs {
		if c.Slots[b.slot] && (b.group == "" || !c.Except[b.group]) && c.allowed(b) > 0 {
			all = append(all, &visit{claim: c, table: t, run: b})
		}
	}
	return all
}

// more reports whether there may be something to claim.
func (v *visit) more() bool { return !v.blocked && v.next < len(v.run.docs) && v.allowed(v.run) > 0 }

// open reports whether what follows the page's documents can be claimed.
func (v *visit) open() bool { return !v.blocked && v.next == len(v.run.docs) }

// choose chooses the next so many documents that can be claimed, and returns how many it has found.
func (v *visit) choose(most int) int {
	v.chosen = v.chosen[:0]
	for v.next < len(v.run.docs) && !v.blocked && len(v.chosen) < most {
		d := &v.run.docs[v.next]
		switch v.whose(d) {
		case queue.Theirs:
			v.block(time.Now().Add(blockedPause))
			return len(v.chosen)
		case queue.Free:
			if !v.Absent[queue.RowKey{Table: v.table.Name, Key: d.key}] && !v.table.refused[d.key] {
				v.chosen = append(v.chosen, v.next)
			}
		case queue.Ours:
		}
		v.next++
	}
	return len(v.chosen)
}

// block ends the visit until a time.
func (v *visit) block(until time.Time) {
	v.blocked = true
	v.table.round.due = queue.Sooner(v.table.round.due, until)
}

// whose says whose a document is, as the scan has read it.
func (v *visit) whose(d *document) queue.Owner {
	v.q.claims.Lock()
	defer v.q.claims.Unlock()
	of := v.table.Whose(d.key, d.status == adapters.RowProcessing, func(h *hold) queue.Owner {
		if d.status == adapters.RowWaiting || d.status == adapters.RowProcessing && !h.is(d.token, d.claimed) {
			return queue.Theirs // another process has taken it back; the next settle finds out
		}
		return queue.Ours
	})
	if of == queue.Free && d.status != adapters.RowWaiting {
		return queue.Ours // it is none of the queue's any more
	}
	return of
}

// match has the request match fetched documents. A chosen one that is not among them has been taken by another process; if
// fetching has ended before, it is fetched in the next turn.
func (v *visit) match(wholes map[string]whole, all bool) (wanted []*pick) {
	for _, i := range v.chosen {
		d := &v.run.docs[i]
		w, fetched := wholes[d.key]
		switch {
		case !fetched && all:
			v.block(time.Now().Add(blockedPause))
			return wanted
		case !fetched:
			v.next = i
			return wanted
		case v.req.Match != nil && !v.req.Match(w.row):
			v.refuse(d, w.row)
			continue
		case v.req.Bytes > 0 && v.bytes > 0 && v.bytes+int64(len(w.row.Payload)) > v.req.Bytes:
			v.full = true
			return wanted
		}
		v.bytes += int64(len(w.row.Payload))
		w.row.Claim = &adapters.Claim{Table: v.table.Name, Key: d.key, Attempts: w.attempts}
		wanted = append(wanted, &pick{v, d, w.row})
	}
	return wanted
}

// refuse remembers a document that no route wants.
func (v *visit) refuse(d *document, row *adapters.Row) {
	if v.req.Wants != 0 && v.req.Later != nil && len(v.table.refused) < refusedMost && !v.req.Later(row) {
		v.table.refused[d.key] = true
	}
}

// refusedMost bounds the documents that are remembered because no route wants them.
const refusedMost = 100_000
