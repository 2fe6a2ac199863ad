package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// beat is a check of one source.
type beat struct {
	*watchdog
	op      *operate.Operator
	source  string
	routes  []config.Route
	lanes   map[string][]adapters.LaneStatus
	down    map[string]bool
	standby map[string]bool // an instance waits for the lead
	now     time.Time
	found   map[string]*status.Overdue
}

// keep leaves what was found before of a source that cannot be asked now.
func (b *beat) keep(err error) {
	s := b.sources[b.source]
	if s.refused != err.Error() {
		s.refused = err.Error()
		if errors.Is(err, errors.ErrUnsupported) {
			b.log.Warn("the watchdog does not look for rows that are not settled: a table of the source lacks Outrider's index by age; create it with outrider init --indexes",
				"source", b.source)
		} else {
			b.log.Warn("the watchdog could not look for rows that are not settled", "source", b.source, "error", err)
		}
	}
	for _, r := range b.routes {
		if last := b.overdue(r.Name); last != nil {
			b.found[r.Name] = last
		}
	}
}

func (b *beat) check(ctx context.Context) error {
	s := b.sources[b.source]
	if s == nil {
		s = &watchedSource{waiting: map[adapters.DeadKey]seenRow{}}
		b.sources[b.source] = s
	}
	feed, err := b.op.Feed(ctx, b.source)
	if err != nil {
		return err
	}
	switch {
	case feed.Queue != nil:
		return b.checkQueue(ctx, s, feed.Queue)
	case feed.Source != nil:
		return b.checkLog(ctx, s, feed.Source)
	}
	return nil
}

// end remembers where the table ends now, and returns where it ended when the limit began.
func (b *beat) end(ctx context.Context, s *watchedSource, src adapters.OperatorSource) (m pastEnd, ok bool, err error) {
	at, end := adapters.Start{Kind: adapters.StartEnd}, pastEnd{at: b.now}
	if p, partitioned := src.(adapters.PartitionedSource); partitioned {
		end.parts, err = p.Starts(ctx, at)
	} else {
		end.cursor, err = src.Start(ctx, at)
	}
	if err != nil {
		return m, false, err
	}
	s.ends = append(s.ends, end)
	for len(s.ends) > 1 && b.now.Sub(s.ends[1].at) >= b.limit {
		s.ends = s.ends[1:]
	}
	return s.ends[0], b.now.Sub(s.ends[0].at) >= b.limit, nil
}

// had drops rows of a partition that came after that.
func (e *pastEnd) had(slot int, rows []adapters.FoundRow) []adapters.FoundRow {
	if e.parts == nil {
		return rows
	}
	last, ok := e.parts[slot]
	return slices.DeleteFunc(rows, func(f adapters.FoundRow) bool { return !ok || f.Row.Position > last })
}

// checkLog checks the lanes of a log table.
func (b *beat) checkLog(ctx context.Context, s *watchedSource, src adapters.OperatorSource) error {
	mark, ok, err := b.end(ctx, s, src)
	if err != nil {
		return err
	}
	var lanes []adapters.LaneStatus
	var after []int64
	for _, r := range b.routes {
		for _, l := range b.lanes[r.Name] {
			if w := b.due(&l); w != nil && ok {
				lanes, after = append(lanes, l), append(after, max(w.passed, l.Cursor.Position))
			}
		}
	}
	wants := map[string]func(*adapters.Row) bool{}
	for _, r := range b.routes {
		wants[r.Name] = assembly.Matcher(r.Match)
	}
	for from := 0; from < len(lanes); from += chunkLanes {
		to := min(from+chunkLanes, len(lanes))
		found, err := src.Unsettled(ctx, lanes[from:to], after[from:to], mark.cursor, overdueMost)
		if err != nil {
			return err
		}
		for i, rows := range found {
			b.judge(&lanes[from+i], mark.had(lanes[from+i].Slot, rows), wants[lanes[from+i].Route])
		}
	}
	return nil
}

// another reports whether a live instance other than this one owns a lane. That one watches it: only there it is known
// which addresses are down.
func (b *beat) another(l *adapters.LaneStatus) bool {
	return b.instance != "" && l.Owner != "" && l.Alive && l.Owner != b.instance
}

// due notes the place of a lane, and returns what is remembered of it if it has had time to settle.
func (b *beat) due(l *adapters.LaneStatus) *watchedLane {
	w := b.watchdog.lanes[l.LaneRef]
	switch {
	case l.UpdatedAt.IsZero() || l.Owner == "" && b.standby[l.Route] || b.another(l):
		delete(b.watchdog.lanes, l.LaneRef)
		return nil
	case w == nil || l.Cursor.Position < w.cursor.Position || l.Cursor.Base != w.cursor.Base: // put back, by a seek or a rebase
		w = &watchedLane{since: b.now, moved: b.now}
		b.watchdog.lanes[l.LaneRef] = w
	case l.Cursor.Position != w.cursor.Position:
		w.moved = b.now
	}
	w.cursor = l.Cursor
	if b.now.Sub(w.since) < b.limit || b.pausedLately(l.Route, "", b.now) {
		return nil
	}
	return w
}

// judge takes what a lane has not settled.
func (b *beat) judge(l *adapters.LaneStatus, rows []adapters.FoundRow, wants func(*adapters.Row) bool) {
	w := b.watchdog.lanes[l.LaneRef]
	slices.SortFunc(rows, func(x, y adapters.FoundRow) int { return cmp.Compare(x.Row.Position, y.Row.Position) })
	more := len(rows) >= overdueMost
	last := int64(0)
	if len(rows) > 0 {
		last = rows[len(rows)-1].Row.Position
	}
	rows = slices.DeleteFunc(rows, func(f adapters.FoundRow) bool { return !wants(&f.Row) })
	if len(rows) == 0 {
		if w.passed = 0; more { // none of these is wanted: the next check looks behind them; at the end it begins again
			w.passed = last
		}
		return
	}
	cause := status.CauseStuck
	switch {
	case l.Owner == "" || !l.Alive:
		cause = status.CauseNoOwner
	case b.down[l.Route]:
		cause = status.CauseAddress
	case b.now.Sub(w.moved) < b.limit:
		cause = status.CauseBehind
	}
	b.add(l.Route, status.Overdue{Rows: len(rows), More: more, Lanes: []int{l.Slot}, ID: rows[0].Row.ID, Where: fmt.Sprintf("position %d", rows[0].Row.Position),
		Since: b.now.Add(-b.limit), Cause: cause})
}

// add adds what was found to what is known of a route; what nothing explains comes first.
func (b *beat) add(route string, o status.Overdue) {
	if last := b.overdue(route); last != nil && last.ID == o.ID {
		o.Since = last.Since
	}
	known := b.found[route]
	if known == nil {
		b.found[route] = &o
		return
	}
	if rank(o.Cause) > rank(known.Cause) {
		known.Cause, known.ID, known.Where, known.Since = o.Cause, o.ID, o.Where, o.Since
	}
	known.Rows, known.More, known.Lanes = known.Rows+o.Rows, known.More || o.More, append(known.Lanes, o.Lanes...)
}

func rank(c status.CauseKind) int { return slices.Index(overdueCauses, c) }

// checkQueue checks the oldest rows of a queue that wait.
func (b *beat) checkQueue(ctx context.Context, s *watchedSource, q adapters.OperatorQueue) error {
	rows, err := q.WaitingByAge(ctx, s.after, watchedRows)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		s.after = adapters.DeadKey{} // again from the beginning
	}
	former := s.waiting
	s.waiting = make(map[adapters.DeadKey]seenRow, len(rows))
	checked, leading := 0, true
	for i := range rows {
		r := &rows[i]
		seen, ok := former[r.At]
		if !ok || seen.version != r.Version {
			seen = seenRow{r.Version, b.now}
		}
		s.waiting[r.At] = seen
		patience := b.limit
		if r.Attempts > 0 && r.Due.IsZero() {
			patience += watchedRetry
		}
		if b.now.Sub(seen.at) < patience || r.Due.After(b.now.Add(-b.limit)) || checked >= watchedChecks {
			leading = false
			continue
		}
		checked++
		wanted, err := b.judgeRow(ctx, q, r, seen.at)
		if err != nil {
			return err
		}
		if leading = leading && !wanted; leading {
			s.after = r.At
		}
	}
	return nil
}

// judgeRow looks closely at a row that has not changed for long. It reports whether a route wants it.
func (b *beat) judgeRow(ctx context.Context, q adapters.OperatorQueue, r *adapters.WaitingRow, since time.Time) (wanted bool, err error) {
	found, err := q.Find(ctx, r.At.Key, operate.FoundMost)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(found.Rows, func(f adapters.FoundRow) bool { return f.Table == r.At.Table && f.Status == adapters.RowWaiting })
	if i < 0 {
		return true, nil // it was claimed meanwhile
	}
	row := &found.Rows[i].Row
	route := ""
	for _, c := range b.routes {
		if assembly.Matcher(c.Match)(row) {
			route = c.Name
			break
		}
	}
	if route == "" {
		return false, nil
	}
	if first, err := q.IsFirst(ctx, r.At); err != nil || !first || b.pausedLately(route, "", b.now) || b.pausedLately(route, row.Group, b.now) {
		return true, err
	}
	cause := status.CauseStuck
	lane := adapters.LaneRef{Route: route, Slot: row.Slot}
	owned, another := false, false
	for i := range b.lanes[route] {
		if l := &b.lanes[route][i]; l.LaneRef == lane {
			owned, another = l.Owner != "" && l.Alive, b.another(l)
		}
	}
	switch {
	case another:
		return true, nil
	case !owned && b.standby[route]:
		return true, nil
	case !owned:
		cause = status.CauseNoOwner
	case b.down[route]:
		cause = status.CauseAddress
	}
	b.add(route, status.Overdue{Rows: 1, Lanes: []int{row.Slot}, ID: row.ID, Where: "table " + r.At.Table, Since: since, Cause: cause})
	return true, nil
}
