package queuetable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/internal/shorten"
)

// laneEpoch is a lane as it was taken.
type laneEpoch struct {
	lane  adapters.LaneRef
	epoch int64
}

// fences are the lanes that have the epoch with which they were taken, of those that the statements ask for. No instance takes one while the
// transaction lasts. They are locked in the order in which operators' commands lock them.
func (s *settling) fences(ctx context.Context, tx *sql.Tx) (map[laneEpoch]bool, error) {
	known := map[laneEpoch]bool{}
	for _, w := range s.writes {
		for _, r := range w.rows {
			if w.fenced(s.q) {
				known[laneEpoch{r.Lane, r.Epoch}] = false
			}
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(known), laneEpoch.compare) {
		var n int
		err := tx.QueryRowContext(ctx, `SELECT 1 FROM outrider_cursor WHERE route = ? AND slot = ? AND epoch = ? LOCK IN SHARE MODE`,
			at.lane.Route, at.lane.Slot, at.epoch).Scan(&n)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		known[at] = err == nil
	}
	return known, nil
}

func (l laneEpoch) compare(m laneEpoch) int {
	return cmp.Or(cmp.Compare(l.lane.Route, m.lane.Route), cmp.Compare(l.lane.Slot, m.lane.Slot), cmp.Compare(l.epoch, m.epoch))
}

// fenced reports whether the statement asks for the epochs of lanes.
func (w *write) fenced(q *Queue) bool {
	return w.text != "" && !w.table.Marks && q.fenced
}

// settle is the statement for an effect; empty: there is nothing to write.
func (s *statements) settle(e *queue.Effect, now time.Time) (text string, v values) {
	v.attempts = e.Attempts
	switch e.Change {
	case queue.Done:
		text = s.Done
	case queue.DeadLetter:
		text, v.err = s.Dead[e.Status], s.errorText(e.Error)
	case queue.Retry:
		text, v.err = s.Retry, s.errorText(e.Error)
		if !e.Due.IsZero() && s.layout.Columns.NextAttempt != "" {
			v.due = e.Due.Sub(now).Microseconds()
		}
	case queue.Release:
		text = s.Put
	case queue.Leave:
	}
	return text, v
}

// errorText is an error for the column; nil: there is none. A strict session refuses what the column's character set does not
// have, and what is too long.
func (s *statements) errorText(text string) any {
	if text == "" {
		return nil
	}
	of, last := s.columnOf(s.layout.Columns.Error), rune(127)
	switch of.charset {
	case "utf8mb4", "":
		last = utf8.MaxRune
	case "utf8mb3", "utf8":
		last = 0xFFFF
	}
	if text = shorten.Storable(text, last); of.length == 0 {
		return text
	}
	if text = shorten.Characters(text, int(of.length)); strings.HasSuffix(of.kind, "text") || of.bytes() { // whose length is in bytes
		for int64(len(text)) > of.length {
			_, last := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-last]
		}
	}
	return text
}
