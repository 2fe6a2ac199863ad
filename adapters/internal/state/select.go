package state

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Dialect is where the statements about parked messages differ between databases.
type Dialect struct {
	Parameter string              // before a parameter's number
	Now       string              // the database's clock, as a column keeps times
	Instant   func(time.Time) any // a time as a parameter
	ForUpdate string              // locks the rows of a subquery; empty: one writer anyway
	AuditTime bool                // an audit record is given its time; otherwise the table has it by default
	InGroup   string              // further condition that finds a group, for which % stands, by an index; empty: none is needed
	Micros    string              // a column of times, for which % stands, as microseconds since 1970; empty: it is that

	Later         string // the clock, and as many microseconds as ? says
	AliveInstance string // condition that an instance i lives, as [adapters.Instance] has it

	Role       string // expression of an audit record's database role
	OwnClock   bool   // operations begin by this host's clock, by which messages are parked: that of SQL is coarser
	LooksOnce  bool   // a look at whether an instance lives is made once for each, not for each of its lanes
	Flows      string // condition that a parked message is not dead, for an index
	Beyond     string // c.beyond as a JSON array
	BySlot     string // ORDER BY of an UPDATE of a route's cursors, where it is needed
	CountLanes string // parked messages by route and slot: retrying, waiting, held, dead; a lane may have several rows

	OfGroup      func(packed string) (condition string, args []any)             // that a parked message is of a group; "": of none
	ParkedGroups func(route string, slots []int) (text string, args []any)      // slot, group, messages, first seq, its status, when it is due and was parked
	Pause        func(route, address, group, reason, by string) (string, []any) // writes a pause unless there is one
	PauseOf      func(address string) (condition string, args []any)            // that a pause is of an address
	RouteTables  []string                                                       // further tables with rows of a route

	// MySQL is the SQL of MySQL and MariaDB: "by" is reserved, a subquery cannot read the table that is updated,
	// and cannot be limited by a row outside of it, a comparison of rows does not use an index, and CAST knows no text.
	MySQL bool
}

// Statement is a statement under construction.
type Statement struct {
	Args    []any
	dialect Dialect
	text    strings.Builder
}

// SQL is the statement's text.
func (s *Statement) SQL() string { return s.text.String() }

// add appends a text in which each % stands for the next argument. Times become
// what the database keeps.
func (s *Statement) add(text string, args ...any) {
	for _, arg := range args {
		if t, ok := arg.(time.Time); ok {
			arg = s.dialect.Instant(t)
		}
		before, after, _ := strings.Cut(text, "%")
		s.Args = append(s.Args, arg)
		s.text.WriteString(before + s.dialect.Parameter)
		if !s.dialect.MySQL { // whose parameters have no numbers
			s.text.WriteString(strconv.Itoa(len(s.Args)))
		}
		text = after
	}
	s.text.WriteString(text)
}

// ListParked selects what the filter selects.
func ListParked(d Dialect, f adapters.ParkedFilter, bytes int64) *Statement {
	return messages(d, bytes, "route, slot, seq", cmp.Or(f.Limit, adapters.DefaultParkedList), func(s *Statement) {
		s.where(f, everyStatus(f))
	})
}

// messages selects parked messages in an order, and metadata and payloads as long as those fit into so many bytes together. No others
// are read: the messages are found and measured without them, and what fits is looked up by key.
func messages(d Dialect, bytes int64, order string, limit int, where func(*Statement)) *Statement {
	content := func(column string) string {
		return "(SELECT p." + column + " FROM outrider_parked AS p WHERE p.route = f.route AND p.slot = f.slot AND p.seq = f.seq)"
	}
	s := &Statement{dialect: d}
	s.add("SELECT route, slot, seq, coalesce(message_group, ''), status, attempts, "+d.known("next_attempt_at")+", last_error, "+
		d.known("parked_at")+", event_id, event_type, position, tries, size, total > %, CASE WHEN total <= % THEN "+d.textual(content("metadata"))+
		" ELSE '{}' END, CASE WHEN total <= % THEN "+content("payload")+" END", bytes, bytes, bytes)
	s.add(" FROM (SELECT f.*, SUM(size + described) OVER (ORDER BY " + order + ") AS total FROM (SELECT route, slot, seq, message_group, status, attempts, " +
		"next_attempt_at, last_error, parked_at, event_id, event_type, position, tries, OCTET_LENGTH(payload) AS size, OCTET_LENGTH(" + d.textual("metadata") +
		") AS described FROM outrider_parked WHERE ")
	where(s)
	s.add(" ORDER BY "+order+" LIMIT %) AS f) AS f ORDER BY "+order, limit)
	return s
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
func (s *Statement) where(f adapters.ParkedFilter, statuses []adapters.ParkedStatus) {
	s.add("true")
	if f.Route != "" {
		s.add(" AND route = %", f.Route)
	}
	if f.Failure != 0 {
		s.add(" AND failure = %", f.Failure)
	}
	if s.equal("message_group", f.Group); f.Group != "" && s.dialect.InGroup != "" {
		s.add(" AND "+s.dialect.InGroup, Pack(f.Group))
	}
	s.equal("event_id", f.ID)
	s.equal("event_type", f.Type)
	if len(statuses) > 0 {
		texts := make([]string, len(statuses))
		for i, status := range statuses {
			texts[i] = "'" + string(status) + "'" // a constant, never a user's text
		}
		s.add(" AND status IN (" + strings.Join(texts, ", ") + ")")
	}
	if f.Error != "" {
		s.add(` AND lower(last_error) LIKE lower(%) ESCAPE '!'`, contains(f.Error))
	}
	if !f.Before.IsZero() {
		s.add(" AND parked_at < %", f.Before)
	}
	if k := f.After; k != (adapters.ParkedKey{}) {
		if s.dialect.MySQL {
			s.add(" AND (route > % OR route = % AND (slot > % OR slot = % AND seq > %))", k.Route, k.Route, k.Slot, k.Slot, k.Seq)
		} else {
			s.add(" AND (route, slot, seq) > (%, %, %)", k.Route, k.Slot, k.Seq)
		}
	}
}

// equal compares a packed text.
func (s *Statement) equal(column, value string) {
	if value != "" {
		s.add(" AND "+column+" = %", Pack(value))
	}
}

// by is the column of a command's author.
func (d Dialect) by() string {
	if d.MySQL {
		return "`by`"
	}
	return "by"
}

// textual is a column as text.
func (d Dialect) textual(column string) string {
	if d.MySQL {
		return "CAST(" + column + " AS char)"
	}
	return "CAST(" + column + " AS text)"
}

// contains is the pattern of texts with the given one inside. A backslash as its escape would be read in more than one way, by
// database and mode.
func contains(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(Clean(text)) + "%"
}

// lanes adds the condition that a row is of one of the lanes.
func (s *Statement) lanes(lanes []adapters.LaneRef) {
	s.add("(")
	for i, l := range lanes {
		if i > 0 {
			s.add(" OR ")
		}
		s.add("route = % AND slot = %", l.Route, l.Slot)
	}
	s.add(")")
}

// between adds the condition that a row is of one of the lanes, after one place and up to another: lane by lane,
// because an index on the whole key would be read from the begin of a lane otherwise.
func (s *Statement) between(lanes []adapters.LaneRef, after, last adapters.ParkedKey) {
	s.add(" AND (")
	for i, l := range lanes {
		if i > 0 {
			s.add(" OR ")
		}
		s.add("route = % AND slot = %", l.Route, l.Slot)
		if l == after.LaneRef {
			s.add(" AND seq > %", after.Seq)
		}
		if l == last.LaneRef {
			s.add(" AND seq <= %", last.Seq)
		}
	}
	s.add(")")
}

// change is the statement that carries out an action on rows.
func (s *Statement) change(a adapters.ParkedAction) error {
	switch a {
	case adapters.ParkedRedrive:
		s.add("UPDATE outrider_parked SET status = 'retrying', attempts = 0, next_attempt_at = " + s.dialect.Now)
	case adapters.ParkedSkip, adapters.ParkedPurge:
		s.add("DELETE FROM outrider_parked")
	default:
		return fmt.Errorf("action %q is none of redrive, skip, purge", a)
	}
	return nil
}
