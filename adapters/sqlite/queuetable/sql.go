package queuetable

import (
	"strings"

	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// statements are the statements for one table. Nothing here does I/O.
type statements struct {
	queue.Described
	name    string // quoted
	layout  *Layout
	types   map[string]string // declared, by column in lower case
	rowless bool              // WITHOUT ROWID
	names   sqltext.Names

	group string // expression of a row's group, NULL: the row is in no order; "": no row has one

	byGroup, byAge, processing, byDead *index
	byDone                             *index // nil: delivered rows stay

	newest, newer                      string // rowids, and the groups of rows
	alone, aloneOn                     string // pages: of rows in no order, behind one
	groups, groupsOn                   string // of groups, behind one
	ofGroup, ofGroupOn                 string // of one group, behind a row
	behind                             string // the condition for a row that comes behind another one by age
	read, payload                      string // what was chosen
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
	s := &statements{name: lite.Quote(t.name), layout: t.Layout.In(queue.Has(types)), types: types}
	s.Described = queue.Described{Of: t.Table, Quoted: lite.Quote, Literal: literal, Number: func(column string) bool { return s.affinity(column) != affinityText }}
	s.Of.Layout = s.layout
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
		s.byGroup = s.newIndex("group", s.group+", "+order, s.Unfinished())
	}
	s.byAge = s.newIndex("age", order, s.Unfinished())
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
	i := &index{name: s.Of.Name + "_outrider_" + what + "_idx"}
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

// build makes the statements that read. Those that write are made in write_sql.go.
func (s *statements) build() {
	c := &s.layout.Columns
	s.names = sqltext.Names{"table": s.name, "created": lite.Quote(c.Created), "key": lite.Quote(c.Key), "claimed": lite.Quote(c.Claimed), "payload": lite.Quote(c.Payload),
		"group": s.Group(), "pin": s.byAge.pin(), "alone": "", "marked": "0", "unfinished": s.in(s.Unfinished()), "waiting": s.Statuses(s.layout.Statuses.Waiting()...),
		"raw_created": raw(c.Created), "raw_key": raw(c.Key), "raw_claimed": raw(c.Claimed), "raw_next": raw(c.NextAttempt),
		"record": queue.Columns(s, s.layout, min(s.Of.MaxRow, queue.InlineBytes), "NULL", s.Group())}
	if s.Of.Marks {
		s.names["marked"] = s.Statuses(s.layout.Statuses.Processing)
	}
	if s.group != "" {
		s.names["pin"], s.names["alone"] = s.byGroup.pin(), s.group+" IS NULL AND "
	}
	s.newest = s.fill("SELECT coalesce(max(_rowid_), 0) FROM {table}")
	s.newer = s.fill("SELECT _rowid_, {group} FROM {table} NOT INDEXED WHERE _rowid_ > {:seen} AND _rowid_ <= {:newest} AND {waiting} ORDER BY _rowid_ LIMIT {:limit}")

	const (
		page  = "SELECT {group}, {raw_created}, {raw_key}, {marked}, {raw_claimed}, {raw_next} FROM {table}{pin} WHERE "
		order = " ORDER BY {created}, {key} LIMIT {:limit}"
	)
	s.behind = s.fill("({created}, {key}) > ({:created}, {:key})")
	s.alone = s.fill(page + "{alone}{unfinished}" + order)
	s.aloneOn = s.fill(page+"{alone}{unfinished} AND ") + s.behind + s.fill(order)
	if s.group != "" {
		const byGroup = " AND {unfinished} ORDER BY {group}, {created}, {key} LIMIT {:limit}"
		s.groups, s.groupsOn = s.fill(page+"{group} IS NOT NULL"+byGroup), s.fill(page+"{group} > {:group}"+byGroup)
		s.ofGroup = s.fill(page + "{group} = {:group} AND {unfinished}" + order)
		s.ofGroupOn = s.fill(page+"{group} = {:group} AND {unfinished} AND ") + s.behind + s.fill(order)
	}
	s.read = s.fill("SELECT {record} FROM {table} WHERE {waiting} AND {key} IN ({:keys})")
	s.payload = s.fill("SELECT {payload} FROM {table} WHERE {key} = ?")
	s.buildWrites()
}

// fill puts the table's names into a template.
func (s *statements) fill(template string) string { return sqltext.Fill(template, s.names) }
