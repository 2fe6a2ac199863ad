package state

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/sqlvalue"
)

// ListParked returns what the filter selects, by route, slot and seq.
func (o *Operators) ListParked(ctx context.Context, f adapters.ParkedFilter, bytes int64) (parked []adapters.Parked, err error) {
	if err = CheckFilter(f); err == nil {
		parked, err = o.parked(ctx, o.db.list(f, bytes))
	}
	return parked, o.db.Wrap("list parked messages", err)
}

func (db *Database) list(f adapters.ParkedFilter, bytes int64) *sqltext.Statement {
	return db.messages(bytes, "route, slot, seq", cmp.Or(f.Limit, adapters.DefaultParkedList), func(s *sqltext.Statement) {
		db.where(s, f, everyStatus(f))
	})
}

// ParkedQueue returns the messages of one group that are not dead, by ascending
// seq. For the empty group these are the lane's messages without a group.
func (o *Operators) ParkedQueue(ctx context.Context, lane adapters.LaneRef, group string, after int64, limit int, bytes int64) ([]adapters.Parked, error) {
	parked, err := o.parked(ctx, o.db.messages(bytes, "seq", limit, func(s *sqltext.Statement) {
		condition, args := o.db.OfGroup(PackGroup(group))
		s.And("route = ? AND slot = ? AND seq > ? AND {flows}", lane.Route, lane.Slot, after).And(" AND "+condition, args...)
	}))
	return parked, o.db.Wrap(fmt.Sprintf("read a parked group of %s/%02d", lane.Route, lane.Slot), err)
}

// messages selects parked messages in an order, and metadata and payloads as long as those fit into so many bytes together. No others
// are read: the messages are found and measured without them, and what fits is looked up by key.
func (db *Database) messages(bytes int64, order string, limit int, where func(*sqltext.Statement)) *sqltext.Statement {
	content := func(column string) string {
		return "(SELECT p." + column + " FROM outrider_parked AS p WHERE p.route = f.route AND p.slot = f.slot AND p.seq = f.seq)"
	}
	s := db.query("SELECT route, slot, seq, coalesce(message_group, ''), status, attempts, "+db.known("next_attempt_at")+", last_error, "+
		db.known("parked_at")+", event_id, event_type, position, tries, size, total > ?, CASE WHEN total <= ? THEN CAST("+content("metadata")+" AS {text})"+
		" ELSE '{}' END, CASE WHEN total <= ? THEN "+content("payload")+" END", bytes, bytes, bytes)
	s.And(" FROM (SELECT f.*, SUM(size + described) OVER (ORDER BY " + order + ") AS total FROM (SELECT route, slot, seq, message_group, status, attempts, " +
		"next_attempt_at, last_error, parked_at, event_id, event_type, position, tries, OCTET_LENGTH(payload) AS size, OCTET_LENGTH(CAST(metadata AS {text})" +
		") AS described FROM outrider_parked WHERE ")
	where(s)
	return s.And(" ORDER BY "+order+" LIMIT ?) AS f) AS f ORDER BY "+order, limit)
}

func (o *Operators) parked(ctx context.Context, s *sqltext.Statement) ([]adapters.Parked, error) {
	parked := []adapters.Parked{}
	err := o.db.Pool.Each(ctx, s, func(scan func(...any) error) error {
		var p adapters.Parked
		var status, metadata, tries string
		var due, at int64
		err := scan(&p.Route, &p.Slot, &p.Seq, &p.Group, &status, &p.Attempts, &due, &p.LastError,
			&at, &p.ID, &p.Type, &p.Position, &tries, &p.Size, &p.Bare, &metadata, (*sqlvalue.Bytes)(&p.Payload))
		if err != nil {
			return err
		}
		p.Group, p.ID, p.Type = Unpack(p.Group), Unpack(p.ID), Unpack(p.Type)
		p.Status, p.Tries = adapters.ParkedStatus(status), DecodeTries(tries)
		p.NextAttemptAt, p.ParkedAt = instant(due), instant(at)
		if p.Metadata, err = DecodeMetadata(metadata); err != nil {
			return fmt.Errorf("outrider_parked %s/%02d seq %d: %w", p.Route, p.Slot, p.Seq, err)
		}
		parked = append(parked, p)
		return nil
	})
	return parked, err
}

// ParkedGroups implements [adapters.StateStore].
func (o *Operators) ParkedGroups(ctx context.Context, route string, slots []int) (groups []adapters.ParkedGroup, err error) {
	if len(slots) == 0 {
		return nil, nil
	}
	text, args := o.db.ParkedGroups(route, slots)
	err = o.db.Pool.Each(ctx, o.db.query(text, args...), func(scan func(...any) error) error {
		var g adapters.ParkedGroup
		var status string
		var due, since int64
		err := scan(&g.Slot, &g.Group, &g.Count, &g.FirstSeq, &status, &due, &since)
		g.Group, g.Since = Unpack(g.Group), instant(since)
		g.Held = status == string(adapters.ParkedHeld)
		if status == string(adapters.ParkedRetrying) {
			g.Due = instant(due)
		}
		groups = append(groups, g)
		return err
	})
	return groups, o.db.Wrap("read the parked groups of "+route, err)
}

func everyStatus(f adapters.ParkedFilter) []adapters.ParkedStatus {
	if f.Status == "" {
		return nil
	}
	return []adapters.ParkedStatus{f.Status}
}

// where adds the filter as a condition; no status means any. Only conditions
// that are set are there, so that the planner sees what it can use; statuses are
// literals because the indexes are partial by them.
func (db *Database) where(s *sqltext.Statement, f adapters.ParkedFilter, statuses []adapters.ParkedStatus) {
	s.And("true")
	if f.Route != "" {
		s.And(" AND route = ?", f.Route)
	}
	if f.Failure != 0 {
		s.And(" AND failure = ?", f.Failure)
	}
	if equal(s, "message_group", f.Group); f.Group != "" && db.InGroup != "" {
		s.And(" AND "+db.InGroup, Pack(f.Group))
	}
	equal(s, "event_id", f.ID)
	equal(s, "event_type", f.Type)
	if len(statuses) > 0 {
		texts := make([]string, len(statuses))
		for i, status := range statuses {
			texts[i] = "'" + string(status) + "'" // a constant, never a user's text
		}
		s.And(" AND status IN (" + strings.Join(texts, ", ") + ")")
	}
	if f.Error != "" {
		s.And(` AND lower(last_error) LIKE lower(?) ESCAPE '!'`, contains(f.Error))
	}
	if !f.Before.IsZero() {
		s.And(" AND parked_at < ?", f.Before)
	}
	switch k := f.After; {
	case k == (adapters.ParkedKey{}):
	case db.RowOrder:
		s.And(" AND (route, slot, seq) > (?, ?, ?)", k.Route, k.Slot, k.Seq)
	default:
		s.And(" AND (route > ? OR route = ? AND (slot > ? OR slot = ? AND seq > ?))", k.Route, k.Route, k.Slot, k.Slot, k.Seq)
	}
}

// equal compares a packed text.
func equal(s *sqltext.Statement, column, value string) {
	if value != "" {
		s.And(" AND "+column+" = ?", Pack(value))
	}
}

// contains is the pattern of texts with the given one inside. A backslash as its escape would be read in more than one way, by
// database and mode.
func contains(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(Clean(text)) + "%"
}
