package queuetable

import (
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// statements are the statements for one table. Nothing here does I/O.
type statements struct {
	name    string // quoted
	table   string // not quoted
	layout  *Layout
	types   map[string]string // declared, by column in lower case
	kind    string
	maxRow  int64
	rowless bool // WITHOUT ROWID
	marks   bool // as the table's

	group string // expression of a row's group, NULL: the row is in no order; "": no row has one

	byGroup, byAge, processing, byDead *index
	byDone                             *index // nil: delivered rows stay

	newest, newer                      string // rowids, and the groups of rows
	alone, aloneOn                     string // pages: of rows in no order, behind one
	groups, groupsOn                   string // of groups, behind one
	ofGroup, ofGroupOn                 string // of one group, behind a row
	read, payload                      string // what was chosen; the keys follow
	take, renew, stuck, waits, recover string
	queue.Settles
}

// index is one of ours.
type index struct {
	name, create string
	there        bool
}

// pin makes a statement use the index, if it exists.
func (i *index) pin() string {
	if i == nil || !i.there {
		return ""
	}
	return " INDEXED BY " + lite.Quote(i.name)
}

func newStatements(t *table, types map[string]string) *statements {
	s := &statements{name: lite.Quote(t.name), table: t.name, layout: t.layoutIn(types), types: types, kind: t.Kind, maxRow: t.MaxRow, marks: t.Marks}
	c := &t.Layout.Columns
	if c.Group != "" {
		s.group = "CAST(" + lite.Quote(c.Group) + " AS TEXT)"
		if t.Layout.GroupByType {
			s.group = "coalesce(" + lite.Quote(c.AggregateType) + " || ':', '') || " + lite.Quote(c.Group)
		}
		switch {
		case t.Layout.DefaultGroup != "":
			s.group = "coalesce(" + s.group + ", " + literal(t.Layout.DefaultGroup) + ")"
		case t.Kind == "":
			s.group = "nullif(" + s.group + ", '')"
		}
		s.group = "(" + s.group + ") COLLATE BINARY"
	}
	order := lite.Quote(c.Created) + ", " + lite.Quote(c.Key)
	if s.group != "" {
		s.byGroup = s.newIndex("group", s.group+", "+order, s.unfinished())
	}
	s.byAge = s.newIndex("age", order, s.unfinished())
	if t.Marks {
		s.processing = s.newIndex("held", lite.Quote(c.Claimed), []string{t.Layout.Statuses.Processing})
	}
	s.byDead = s.newIndex("dead", order, t.Layout.Dead())
	if t.Layout.OldIsDeleted {
		s.byDone = s.newIndex("done", order, []string{t.Layout.Statuses.Done})
	}
	return s
}

func (s *statements) newIndex(what, columns string, statuses []string) *index {
	i := &index{name: s.table + "_outrider_" + what + "_idx"}
	i.create = "CREATE INDEX IF NOT EXISTS " + lite.Quote(i.name) + " ON " + s.name + " (" + columns + ") WHERE " + s.in(statuses)
	return i
}

// indexes are those that claims and operators want.
func (s *statements) indexes() (all []*index) {
	for _, i := range []*index{s.byGroup, s.byAge, s.processing, s.byDead, s.byDone} {
		if i != nil {
			all = append(all, i)
		}
	}
	return all
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func (s *statements) affinity(column string) affinity {
	return affinityOf(s.types[strings.ToLower(column)])
}

// value is a status as the column has it.
func (s *statements) value(status string) string {
	if s.affinity(s.layout.Columns.Status) != affinityText {
		if n, err := strconv.ParseInt(status, 10, 64); err == nil && strconv.FormatInt(n, 10) == status {
			return status
		}
	}
	return literal(status)
}

func (s *statements) unfinished() []string {
	if !s.marks {
		return s.layout.Statuses.Waiting()
	}
	return append(s.layout.Statuses.Waiting(), s.layout.Statuses.Processing)
}

// build makes the statements that read. Those that write are made in write_sql.go.
func (s *statements) build() {
	c := &s.layout.Columns
	created, key := lite.Quote(c.Created), lite.Quote(c.Key)
	s.newest = "SELECT coalesce(max(_rowid_), 0) FROM " + s.name
	s.newer = "SELECT _rowid_, " + s.Group() + " FROM " + s.name +
		" NOT INDEXED WHERE _rowid_ > ?1 AND _rowid_ <= ?2 AND " + s.Statuses(s.layout.Statuses.Waiting()...) + " ORDER BY _rowid_ LIMIT ?3"

	marked, pin, alone := "0", s.byAge.pin(), ""
	if s.marks {
		marked = s.Statuses(s.layout.Statuses.Processing)
	}
	if s.group != "" {
		pin, alone = s.byGroup.pin(), s.group+" IS NULL AND "
	}
	page := "SELECT " + strings.Join([]string{s.Group(), raw(c.Created), raw(c.Key), marked, raw(c.Claimed), raw(c.NextAttempt)}, ", ") +
		" FROM " + s.name + pin + " WHERE "
	unfinished, order := s.in(s.unfinished()), " ORDER BY "+created+", "+key+" LIMIT ?1"
	s.alone = page + alone + unfinished + order
	s.aloneOn = page + alone + unfinished + " AND (" + created + ", " + key + ") > (?2, ?3)" + order
	if s.group != "" {
		byGroup := " AND " + unfinished + " ORDER BY " + s.group + ", " + created + ", " + key + " LIMIT ?1"
		s.groups, s.groupsOn = page+s.group+" IS NOT NULL"+byGroup, page+s.group+" > ?2"+byGroup
		s.ofGroup = page + s.group + " = ?2 AND " + unfinished + order
		s.ofGroupOn = page + s.group + " = ?2 AND " + unfinished + " AND (" + created + ", " + key + ") > (?3, ?4)" + order
	}

	s.read = "SELECT " + queue.Columns(s, s.layout, min(s.maxRow, queue.InlineBytes), "NULL", s.Group()) + " FROM " + s.name +
		" WHERE " + s.Statuses(s.layout.Statuses.Waiting()...) + " AND " + key + " IN (%s)"
	s.payload = "SELECT " + lite.Quote(c.Payload) + " FROM " + s.name + " WHERE " + key + " = ?"
	s.buildWrites()
}
