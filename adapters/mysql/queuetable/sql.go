package queuetable

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// statements are the statements for one table. Nothing here does I/O.
type statements struct {
	queue.Described
	name    string // quoted
	layout  *Layout
	columns map[string]column // by name in lower case
	there   map[string]string // the table's indexes
	names   sqltext.Names

	byQueue, byAge, byStatus index

	page, pageOf, pageOn string // behind a group; of a group; of it, behind a row
	behind               string // the condition for a row that comes behind another one by age
	lock                 string // and read what was chosen, but for large payloads
	payload              string // of a row, by its key
	queue.Settles
	take, renew, back string
	unclaim           string // as back, for claims that may have been made
	still             string // which rows are ours
	free              string // which rows nothing has locked
}

// index is one of ours.
type index struct{ name, columns string }

func newStatements(t *table, columns map[string]column) *statements {
	s := &statements{name: t.at.SQL(), layout: t.Layout.In(queue.Has(columns)), columns: columns}
	s.Described = queue.Described{Of: t.Table, Quoted: my.Quote, Literal: my.Literal, Number: func(column string) bool { return s.columnOf(column).number() }}
	s.Of.Layout = s.layout
	c := &t.Layout.Columns
	order := my.Quote(c.Created) + ", " + my.Quote(c.Key)
	s.byQueue = index{t.at.Name + "_outrider_queue_idx", my.Quote(queueColumn) + ", " + order}
	s.byAge = index{t.at.Name + "_outrider_age_idx", my.Quote(stateColumn) + ", " + order}
	s.byStatus = index{t.at.Name + "_outrider_status_idx", my.Quote(c.Status)}
	for _, i := range []*index{&s.byQueue, &s.byAge, &s.byStatus} {
		i.name = indexName(i.name)
	}
	return s
}

// indexName cuts a name that is longer than the databases allow.
func indexName(name string) string {
	const longest = 64
	if r := []rune(name); len(r) > longest {
		return string(r[len(r)-longest:])
	}
	return name
}

func (s *statements) columnOf(name string) column { return s.columns[strings.ToLower(name)] }

// has reports whether an index is there with its columns.
func (s *statements) has(i index) bool {
	plain := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(i.columns, "`", ""), ", ", ","))
	return s.there[strings.ToLower(i.name)] == plain
}

// pin makes a statement use an index, if it exists.
func (s *statements) pin(i index) string {
	if !s.has(i) {
		return ""
	}
	return s.force(i.name)
}

// missing lists the indexes of ours that are not there. Rows that are being processed are found by any index that begins with the
// status: nearly all tables have one, and each further index with the status in it makes every claim more expensive.
func (s *statements) missing() (all []index) {
	for _, i := range []index{s.byQueue, s.byAge} {
		if !s.has(i) {
			all = append(all, i)
		}
	}
	if s.Of.Marks && s.statusIndex() == "" {
		all = append(all, s.byStatus)
	}
	return all
}

// statusIndex names an index that begins with the status; empty: there is none.
func (s *statements) statusIndex() string { return s.beginning(s.layout.Columns.Status) }

// byKey makes a statement find rows by their keys: by the primary key, or another index that begins with them; empty: there is none.
func (s *statements) byKey() string { return s.force(s.beginning(s.layout.Columns.Key)) }

// force makes a statement use an index; empty: the server chooses.
func (s *statements) force(index string) string {
	if index == "" {
		return ""
	}
	return " FORCE INDEX (" + my.Quote(index) + ")"
}

// beginning names the primary key if it begins with a column, or another index that does; empty: there is none.
func (s *statements) beginning(column string) string {
	names := slices.Sorted(maps.Keys(s.there))
	for _, name := range append([]string{"primary"}, names...) {
		if first, _, _ := strings.Cut(s.there[name], ","); strings.EqualFold(first, column) {
			return name
		}
	}
	return ""
}

// added are the columns that [Init] adds, with their definitions. INVISIBLE comes last: MariaDB takes it nowhere else.
func (s *statements) added() []Named {
	computed := func(name, kind, expression string) Named {
		return Named{name, kind + " GENERATED ALWAYS AS (" + expression + ") VIRTUAL INVISIBLE", expression}
	}
	all := []Named{computed(queueColumn, fmt.Sprintf("varbinary(%d)", queueBytes), s.queued()), computed(stateColumn, "tinyint", s.state())}
	if s.Of.Marks {
		all = append(all, Named{claimColumn, "bigint NOT NULL DEFAULT 0 INVISIBLE", ""})
	}
	return all
}

// Named is a column with its definition.
type Named struct {
	Name, Definition string

	computed string // the expression; empty: it is none
}

// lacks reports which of our columns are missing, or were made for other statuses or another column of groups.
func (s *statements) lacks() error {
	for _, a := range s.added() {
		of, ok := s.columns[a.Name]
		if !ok {
			return fmt.Errorf("the column %s is missing, which claims need; `outrider init` adds it (invisible to SELECT * and INSERT)", a.Name)
		}
		if !of.computes(a.computed) {
			return fmt.Errorf("the column %s was made for other statuses or another column of groups; `outrider init` makes it anew", a.Name)
		}
	}
	return nil
}

// computes reports whether a column is computed by an expression: the databases write it each in their own way, so
// what is compared is the names and texts in it.
func (c column) computes(expression string) bool {
	return slices.Equal(words(c.computed), words(expression))
}

// makesText reports whether a column makes text of bytes, as those of former builds do, and its expression does not.
func (c column) makesText(expression string) bool {
	const made = "utf8mb4)"
	return strings.Contains(c.computed, made) && !strings.Contains(expression, made)
}

// words are the names and texts of an expression that are the table's, in their order.
func words(expression string) (all []string) {
	expression = strings.NewReplacer(`\'`, "'", "_utf8mb4'", "'", "_utf8mb3'", "'", "_latin1'", "'").Replace(expression)
	for rest := expression; ; {
		i := strings.IndexAny(rest, "`'")
		if i < 0 {
			return all
		}
		quote := rest[i]
		word, after, _ := strings.Cut(rest[i+1:], string(quote))
		all, rest = append(all, string(quote)+word), after
	}
}

// queueBytes bounds outrider_queue: a name that is longer makes the row dead, and shares a queue with those that begin alike.
const queueBytes = adapters.MaxRowNameBytes + 8

// The value of outrider_queue for rows in no order, and its prefix for others. The former sorts first.
const (
	alone   = queue.Alone
	grouped = "="
)

// The values of outrider_state; it is NULL in delivered rows.
const (
	stateUnfinished = 1
	stateDead       = 2
)

var states = map[queue.State]int{queue.Unfinished: stateUnfinished, queue.Dead: stateDead}

// state is the expression of outrider_state. A claim does not change it, and so leaves its index alone.
func (s *statements) state() string {
	return fmt.Sprintf("CASE WHEN %s THEN %d WHEN %s THEN %d END", s.In(s.plain(s.layout.Columns.Status), s.Unfinished()), stateUnfinished,
		s.In(s.plain(s.layout.Columns.Status), s.layout.Dead()), stateDead)
}

// queued is the expression of outrider_queue.
func (s *statements) queued() string {
	return "CASE WHEN " + s.In(s.plain(s.layout.Columns.Status), s.Unfinished()) + " THEN " + s.Group() + " END"
}

// build makes the statements that read. Those that write are made in write_sql.go.
func (s *statements) build() {
	c := &s.layout.Columns
	s.names = sqltext.Names{"table": s.name, "by_queue": s.pin(s.byQueue), "by_key": s.byKey(), "by_status": s.force(s.statusIndex()),
		"queue": my.Quote(queueColumn), "created": my.Quote(c.Created), "key": my.Quote(c.Key), "claimed": raw(c.Claimed), "payload": my.Quote(c.Payload),
		"wait": s.wait(), "marked": "0", "token": "0", "waiting": s.Statuses(s.layout.Statuses.Waiting()...), "locked": "",
		"record": queue.Columns(s, s.layout, min(s.Of.MaxRow, queue.InlineBytes), "NULL", my.Quote(queueColumn))}
	if s.Of.Marks {
		s.names["marked"], s.names["token"], s.names["locked"] = s.Statuses(s.layout.Statuses.Processing), my.Quote(claimColumn), skipLocked
	}
	const page = "SELECT {queue}, {created}, {key}, {marked}, {claimed}, {wait}, {token} FROM {table}{by_queue} WHERE {queue}"
	s.behind = s.fill("({created} > {:created} OR {created} = {:created} AND {key} > {:key})") // two ranges of an index, which a comparison of rows is not
	s.page = s.fill(page + " > {:queue} ORDER BY {queue}, {created}, {key} LIMIT {:limit}")
	s.pageOf = s.fill(page + " = {:queue} ORDER BY {created}, {key} LIMIT {:limit}")
	s.pageOn = s.fill(page+" = {:queue} AND ") + s.behind + s.fill(" ORDER BY {created}, {key} LIMIT {:limit}")
	s.lock = s.fill("SELECT {record}, NOW(6) FROM {table}{by_key} WHERE {waiting} AND {key} IN ({:keys}){locked}")
	s.payload = s.fill("SELECT {payload} FROM {table}{by_key} WHERE {key} = ?")
	s.buildWrites()
}

// fill puts the table's names into a template.
func (s *statements) fill(template string) string { return sqltext.Fill(template, s.names) }

// precision is how many digits of a second a column of times has.
func (s *statements) precision(column string) int {
	return min(cmp.Or(s.columnOf(column).precision, 0), 6)
}
