package system_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// A queue's tables are of any types that the docs allow, with values as applications write them. In each database tables are made of
// combinations of layouts and types, filled with rows, and given to one relay:
//
//   - what init adds refuses no row that the table took before; an init that refuses a table leaves it as it is;
//   - a table is right, or doctor and run refuse it;
//   - each row is delivered once, with its content, in the order of its group, or is visibly dead, and says why;
//   - status, parked, event, redrive and purge work on each row, and an id that is not a row's concerns none.

// kind is a type of a column with literals of values. One that begins with "!" makes its row dead, with "~" a row may also wait or die.
// In a payload # is the row's mark.
type kind struct {
	sql    string
	values []string
	key    string // of further keys: a format of their number
	number bool   // statuses are numbers
	may    bool   // Outrider may refuse the type
	bytes  bool   // values are no text: payloads no JSON
}

// anyDatabase has the statements and the types of columns for tables in one kind of database.
type anyDatabase struct {
	name    string
	layouts []string
	source  string            // keys of a source, with the URL
	before  []string          // statements
	columns map[string][]kind // by what they are for; "other" is the type of the rest
	quote   func(string) string
	text    func(column string, k kind) string // an expression: the value as messages have it
	payload func(column string, k kind) string // the same of a payload
	shape   string                             // a query: what a table consists of, to compare
}

// anyTable is a table of a combination.
type anyTable struct {
	db     *sql.DB
	of     *anyDatabase
	name   string
	layout string
	queue  *layout.Queue
	kinds  map[string]kind
	rows   []anyRow
	cfg    *outrider.Config
	refuse string // why Outrider refuses it
	wrong  []string
}

// anyRow is a row that the table takes.
type anyRow struct {
	mark, insert     string
	dies, free, deny bool // its values make it dead; may do anything; the receiver refuses it at first
}

// anyRoles are the purposes of the columns whose types vary, and the table itself, in the order of the dimensions: the first is the layout.
var anyRoles = []string{"key", "group", "payload", "status", "created", "error", "next_attempt", "table"}

const anyRows = 40

// pairsOf returns combinations of one value of each dimension, until all pairs of values are in one, at most so many.
func pairsOf(sizes []int, most int) (all [][]int) {
	type pair struct{ d, v, e, w int }
	random, open := rand.New(rand.NewPCG(37, 37)), map[pair]bool{}
	for d := range sizes {
		for e := d + 1; e < len(sizes); e++ {
			for i := range sizes[d] * sizes[e] {
				open[pair{d, i / sizes[e], e, i % sizes[e]}] = true
			}
		}
	}
	covers := func(c []int) (pairs []pair) {
		for d := range c {
			for e := d + 1; e < len(c); e++ {
				if p := (pair{d, c[d], e, c[e]}); open[p] {
					pairs = append(pairs, p)
				}
			}
		}
		return pairs
	}
	used := make([]map[int]int, len(sizes))
	for len(open) > 0 && len(all) < most {
		var best []int
		var worth float64
		for range 60 {
			c, fresh := make([]int, len(sizes)), 0.0
			for d, n := range sizes {
				if c[d] = random.IntN(n); used[d][c[d]] == 0 { // each value soon
					fresh += 30
				}
			}
			if w := fresh + float64(len(covers(c))); best == nil || w > worth {
				best, worth = c, w
			}
		}
		for d, v := range best {
			if used[d] == nil {
				used[d] = map[int]int{}
			}
			used[d][v]++
		}
		for _, p := range covers(best) {
			delete(open, p)
		}
		all = append(all, best)
	}
	return all
}

// right leaves out the types that may be refused.
func (of *anyDatabase) right() *anyDatabase {
	for role, kinds := range of.columns {
		of.columns[role] = slices.DeleteFunc(kinds, func(k kind) bool { return k.may })
	}
	return of
}

// tables makes the tables of combinations: of what must be right all pairs, at most so many tables, and one for each type that may be refused.
func (of *anyDatabase) tables(t *testing.T, db *sql.DB, url string, most int) (all []*anyTable) {
	t.Helper()
	add := func(layout string, kinds map[string]kind) {
		table := &anyTable{db: db, of: of, name: fmt.Sprintf("t%03d", len(all)), layout: layout, kinds: kinds}
		table.queue = table.layoutOf()
		if layout != "custom" { // which has its own statuses, and indexes with them
			kinds["status"] = of.columns["status"][map[bool]int{false: 0, true: 1}[table.queue.Statuses.Dead == "3"]]
		}
		if table.queue.DefaultGroup != "" && of.name == "postgres" { // as rows without a group are in one
			kinds["group"] = of.columns["group"][2]
		}
		table.cfg = configuredOnly(t, table.config(url))
		all = append(all, table)
	}
	first, right, sizes := map[string]kind{}, map[string][]kind{}, []int{len(of.layouts)}
	for _, role := range anyRoles {
		first[role], right[role] = of.columns[role][0], slices.DeleteFunc(slices.Clone(of.columns[role]), func(k kind) bool { return k.may })
		sizes = append(sizes, len(right[role]))
	}
	for _, c := range pairsOf(sizes, most) {
		kinds := map[string]kind{}
		for i, role := range anyRoles {
			kinds[role] = right[role][c[i+1]]
		}
		add(of.layouts[c[0]], kinds)
	}
	for _, role := range anyRoles {
		for _, k := range of.columns[role] {
			if k.may {
				kinds := maps.Clone(first)
				kinds[role] = k
				add("custom", kinds)
			}
		}
	}
	return all
}

// layoutOf is the layout of a name, or one of a table that is described in the configuration.
func (a *anyTable) layoutOf() *layout.Queue {
	if p := layout.Find(a.layout); p != nil {
		return p.Queue
	}
	l := &layout.Queue{Tables: []layout.Table{{Name: a.name}}, Columns: layout.Columns{Key: "id", Type: "typ", Payload: "body", Status: "st", Created: "made", Claimed: "taken",
		Group: "grp", Attempts: "tries", NextAttempt: "due", Error: "err"}, Statuses: layout.Statuses{Pending: "new", Processing: "busy", Done: "sent", Dead: "gone"}}
	if a.kinds["status"].number {
		l.Statuses = layout.Statuses{Pending: "0", Processing: "1", Done: "2", Dead: "3"}
	}
	return l
}

// config is a source and a route.
func (a *anyTable) config(url string) string {
	keys := fmt.Sprintf("layout: %s, table: %s", a.layout, a.name)
	switch {
	case a.layout == "custom":
		c, s := &a.queue.Columns, &a.queue.Statuses
		keys += fmt.Sprintf(`, queue: {key: %s, type: %s, payload: %s, status: %s, created: %s, claimed: %s, group: %s, attempts: %s, next_attempt: %s, error: %s,
    statuses: {pending: "%s", processing: "%s", done: "%s", dead: "%s"}}`, c.Key, c.Type, c.Payload, c.Status, c.Created, c.Claimed, c.Group, c.Attempts, c.NextAttempt, c.Error,
			s.Pending, s.Processing, s.Done, s.Dead)
	case len(a.queue.Tables) > 1:
		keys = fmt.Sprintf("layout: %s, tables: {events: %s, dispatch_jobs: %s_jobs}", a.layout, a.name, a.name)
	}
	if preset := layout.Find(a.layout); preset != nil && preset.Defaults.Leader && a.of.name != "sqlite" {
		keys += ", leader: false"
	}
	return fmt.Sprintf("  %s: {%s, %s, poll: {min: 5ms, max: 100ms}}\n", a.name, fmt.Sprintf(a.of.source, url), keys)
}

// configuredOnly is a configuration of sources, each with a route of its name.
func configuredOnly(t *testing.T, sources ...string) *outrider.Config {
	t.Helper()
	text := bytes.NewBufferString("admin: {listen: \"off\"}\ndestinations: {bus: {type: publisher, topic: all}}\nsources:\n" + strings.Join(sources, "") + "routes:\n")
	for _, s := range sources {
		name, _, _ := strings.Cut(strings.TrimSpace(s), ":")
		fmt.Fprintf(text, "  %s: {from: %s, to: bus, middleware: [poison, {retry: {attempts: 2, base: 1ms}}]}\n", name, name)
	}
	cfg, err := outrider.ParseConfig("test.yaml", text.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

func (a *anyTable) String() string {
	parts := []string{a.of.name, a.layout}
	for _, role := range anyRoles {
		parts = append(parts, role+" "+a.kinds[role].sql)
	}
	return a.name + ": " + strings.Join(parts, ", ")
}

// typeOf is the type of a column by what it is for.
func (a *anyTable) typeOf(what string) string {
	k, ok := a.kinds[what]
	switch what {
	case "claimed", "done", "updated":
		k, ok = a.kinds["next_attempt"], true
	case "attempts":
		return "int NOT NULL DEFAULT 0"
	}
	if !ok {
		k = a.of.columns["other"][0]
	}
	sql := k.sql
	if what == "status" && strings.Contains(sql, "%s") {
		var values []string
		for _, s := range a.queue.InUse() {
			values = append(values, "'"+s.Name+"'")
		}
		sql = fmt.Sprintf(sql, strings.Join(append(values, "'4', '5', '6'"), ", "))
	}
	switch what {
	case "key":
		sql += " PRIMARY KEY"
	case "status", "created":
		sql += " NOT NULL"
	default:
		sql += a.of.columns["other"][0].key // NULL, where a type has it not by itself
	}
	return sql
}

// create creates the table as an application has it.
func (a *anyTable) create(t *testing.T) {
	t.Helper()
	columns := []string{"marking varchar(40)"}
	for _, c := range a.queue.Definitions[layout.Database(a.of.name)].Columns {
		if !slices.ContainsFunc(a.queue.All(), func(is layout.Named) bool { return is.Name == c.Name }) {
			typ, _, _ := strings.Cut(c.Type, " ")
			columns = append(columns, a.of.quote(c.Name)+" "+typ)
		}
	}
	for _, c := range a.queue.All() {
		columns = append(columns, a.of.quote(c.Name)+" "+a.typeOf(c.What))
	}
	a.exec(t, "CREATE TABLE "+a.name+" ("+strings.Join(columns, ", ")+") "+a.kinds["table"].sql)
}

func (a *anyTable) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := a.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%v\n%s: %s", err, a, statement)
	}
}

// fill inserts the rows that the table takes, which are those that it is judged by.
func (a *anyTable) fill(t *testing.T) {
	t.Helper()
	a.rows = nil
	for i := range anyRows {
		row := anyRow{mark: fmt.Sprintf("%s.%02d", a.name, i), deny: i%5 == 1}
		keys := a.kinds["key"]
		if i >= len(keys.values) && keys.key == "" {
			break
		}
		names, values := []string{"marking"}, []string{"'" + row.mark + "'"}
		for _, c := range a.queue.All() {
			value := "NULL"
			k, varies := a.kinds[c.What]
			switch {
			case c.What == "status":
				if value = "'" + a.queue.Statuses.Pending + "'"; len(k.values) > 0 {
					value = k.values[0]
				}
			case c.What == "key" && i >= len(k.values):
				value = strings.ReplaceAll(k.key, "#", fmt.Sprintf("%02d", i))
			case varies && len(k.values) > 0:
				value = k.values[i/(1+slices.Index(anyRoles, c.What)%3)%len(k.values)]
			case c.What == "attempts":
				value = "0"
			case c.What == "type":
				value = "'t'"
			case c.What == "headers":
				value = "'{}'"
			case c.What == "aggregate_type" && i%3 > 0:
				value = "'T'"
			}
			row.dies = row.dies || value[0] == '!'
			row.free = row.free || value[0] == '~'
			names, values = append(names, a.of.quote(c.Name)), append(values, strings.ReplaceAll(strings.TrimLeft(value, "!~"), "#", row.mark))
		}
		row.insert = "INSERT INTO " + a.name + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
		if _, err := a.db.ExecContext(t.Context(), row.insert); err == nil {
			a.rows = append(a.rows, row)
		}
	}
	if len(a.rows) < 2 {
		t.Errorf("%s: the table takes %d rows", a, len(a.rows))
	}
}

// prepare fills the table, prepares it for Outrider, and fills it again: it takes what it took before.
func (a *anyTable) prepare(t *testing.T) {
	t.Helper()
	a.create(t)
	a.fill(t)
	before := a.ask(t, a.of.shape)
	_, err := operate.Init(t.Context(), a.cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		if a.refuse = err.Error(); !a.may() {
			t.Errorf("%s: init: %v", a, err)
		}
		if after := a.ask(t, a.of.shape); !maps.EqualFunc(before, after, slices.Equal) {
			t.Errorf("%s: init failed, and left the table changed: %v, it was %v", a, after, before)
		}
	}
	a.exec(t, "DELETE FROM "+a.name)
	for i := range a.rows {
		if _, err := a.db.ExecContext(t.Context(), a.rows[i].insert); err != nil {
			t.Errorf("%s: after init the application's row is refused: %v: %.200s", a, err, a.rows[i].insert)
			a.rows[i].free = true
		}
	}
}

// may reports whether Outrider may refuse the table.
func (a *anyTable) may() bool {
	return slices.ContainsFunc(anyRoles, func(role string) bool { return a.kinds[role].may })
}

// ask runs a query about the table; the values of its rows are by their first one.
func (a *anyTable) ask(t *testing.T, query string) map[string][]string {
	t.Helper()
	rows, err := a.db.QueryContext(t.Context(), strings.ReplaceAll(query, "{t}", a.name))
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	defer func() { must(t, rows.Close()) }()
	columns, err := rows.Columns()
	must(t, err)
	found := map[string][]string{}
	for n := 0; rows.Next(); n++ {
		values, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		must(t, rows.Scan(targets...))
		texts := []string{strconv.Itoa(n)}
		for _, v := range values[1:] {
			if texts = append(texts, v.String); !v.Valid {
				texts[len(texts)-1] = "NULL"
			}
		}
		found[values[0].String] = texts
	}
	must(t, rows.Err())
	return found
}

// anyState is a row as the table has it.
type anyState struct {
	place                      string // in the order of creation and key
	status, id, group, payload string
}

// states are the rows by their marks.
func (a *anyTable) states(t *testing.T) map[string]anyState {
	t.Helper()
	c, q := &a.queue.Columns, a.of.quote
	group := "NULL"
	if c.Group != "" {
		group = a.of.text(q(c.Group), a.kinds["group"])
	}
	if a.queue.GroupByType {
		group = "CASE WHEN " + q(c.AggregateType) + " IS NULL OR " + q(c.Group) + " IS NULL THEN " + group + " ELSE " + a.of.text("CONCAT('T:', "+q(c.Group)+")", a.kinds["group"]) + " END"
	}
	found := map[string]anyState{}
	for mark, v := range a.ask(t, "SELECT marking, "+a.of.text(q(c.Status), a.kinds["status"])+", "+a.of.text(q(c.Key), a.kinds["key"])+", "+group+", "+
		a.of.payload(q(c.Payload), a.kinds["payload"])+" FROM {t} ORDER BY {t}."+q(c.Created)+", {t}."+q(c.Key)) {
		s := anyState{v[0], strings.TrimRight(v[1], " "), v[2], v[3], v[4]}
		if s.group == "NULL" {
			s.group = a.queue.DefaultGroup
		}
		if kind := a.queue.Tables[0].Kind; kind != "" {
			s.group = kind + ":" + s.group
		}
		found[mark] = s
	}
	return found
}

func (a *anyTable) dead(s anyState) bool { return slices.Contains(a.queue.Dead(), s.status) }

// unfinished counts rows that are neither delivered nor dead.
func (a *anyTable) unfinished(t *testing.T) (n int) {
	t.Helper()
	states := a.states(t)
	for _, r := range a.rows {
		if s, there := states[r.mark]; there && !r.free && !a.dead(s) && s.status != a.queue.Statuses.Done {
			n++
		}
	}
	return n
}

// anyReceiver takes messages, by the marks in their payloads.
type anyReceiver struct {
	mu     sync.Mutex
	deny   map[string]bool // refused, as long as it is not open
	open   bool
	tried  map[string]int
	took   map[string][]*message.Message
	places []string // marks in their order
}

var (
	anyMark  = regexp.MustCompile(`t\d{3}\.\d\d`)
	errNotIt = errors.New("受 é \x00\xff 😀 it is not wanted " + strings.Repeat("a long reason ", 500))
)

// Publish implements message.Publisher. Some messages fail at first.
func (r *anyReceiver) Publish(_ string, msgs ...*message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range msgs {
		mark := string(anyMark.Find(m.Payload))
		r.tried[mark]++
		switch {
		case r.deny[mark] && !r.open:
			return outbox.Permanent(errNotIt)
		case strings.HasSuffix(mark, "2") && r.tried[mark] == 1:
			return errNotIt
		}
		r.took[mark] = append(r.took[mark], m.Copy())
		r.places = append(r.places, mark)
	}
	return nil
}

func (r *anyReceiver) Close() error { return nil }

// settles waits until the tables have no waiting rows, or nothing more happens.
func (r *anyReceiver) settles(t *testing.T, tables []*anyTable) {
	t.Helper()
	eventuallyOr(t, func() bool {
		return !slices.ContainsFunc(tables, func(a *anyTable) bool { return a.unfinished(t) > 0 })
	})
}

// eventuallyOr waits for a condition, at most a minute. The caller checks the result.
func eventuallyOr(t *testing.T, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !cond() && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
}

// delivered checks the outcome of each row.
func (r *anyReceiver) delivered(t *testing.T, a *anyTable) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	states, last := a.states(t), map[string]string{}
	for _, row := range a.rows {
		s, there := states[row.mark]
		took := r.took[row.mark]
		fate := "it waits"
		switch {
		case !there || s.status == a.queue.Statuses.Done:
			fate = "delivered"
		case a.dead(s):
			fate = "dead"
		}
		want := "delivered"
		if row.dies || row.deny && !r.open {
			want = "dead"
		}
		switch {
		case row.free && len(took) < 2:
		case fate != want:
			a.isWrong("row %s is %s, want %s: %.300s", row.mark, fate, want, row.insert)
		case fate == "delivered" && len(took) != 1:
			a.isWrong("row %s was delivered %d times: %.300s", row.mark, len(took), row.insert)
		case fate == "delivered" && (took[0].Metadata.Get(outbox.MetaEncoding) != "") != (a.kinds["payload"].bytes && (!a.queue.JSONBytes || !json.Valid(took[0].Payload))):
			a.isWrong("row %s arrived with the encoding %q: %.300s", row.mark, took[0].Metadata.Get(outbox.MetaEncoding), row.insert)
		case fate == "delivered" && there:
			if got := took[0]; got.UUID != s.id || got.Metadata.Get(outbox.MetaGroup) != s.group || string(got.Payload) != s.payload {
				a.isWrong("row %s arrived with the id %q, group %q, payload %.99q; the table has %q, %q, %.99q", row.mark, got.UUID, got.Metadata.Get(outbox.MetaGroup), got.Payload, s.id, s.group, s.payload)
			}
		}
	}
	if r.open {
		return // what was redriven comes out of its turn
	}
	for _, mark := range r.places {
		s, there := states[mark]
		if !there || s.group == "" {
			continue
		}
		if before, ok := last[s.group]; ok && atoi(t, states[before].place) > atoi(t, s.place) {
			a.isWrong("row %s came after %s, which is later in the group %q", mark, before, s.group)
		}
		last[s.group] = mark
	}
}

func (a *anyTable) isWrong(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

func atoi(t *testing.T, text string) (n int) {
	t.Helper()
	_, err := fmt.Sscan(text, &n)
	must(t, err)
	return n
}

// everyTable makes tables of combinations of types, and judges a relay by them.
func everyTable(t *testing.T, of *anyDatabase, db *sql.DB, url string, most int) {
	t.Helper()
	for _, statement := range of.before {
		_, err := db.ExecContext(t.Context(), statement)
		must(t, err)
	}
	var sources, refusedSources []string
	tables := of.tables(t, db, url, most)
	for _, a := range tables {
		a.prepare(t)
	}
	bus := &anyReceiver{deny: map[string]bool{}, tried: map[string]int{}, took: map[string][]*message.Message{}}
	quiet, to := outrider.WithLogger(slog.New(slog.DiscardHandler)), outrider.WithDestination("bus", bus)
	for _, a := range tables {
		sources = append(sources, a.config(url))
	}
	found := doctor.Doctor(t.Context(), configuredOnly(t, sources...), quiet, to)
	sources = nil
	for _, a := range tables {
		for _, d := range found {
			if d.Level == adapters.LevelBroken && d.Part == "source "+a.name && !strings.HasSuffix(d.Subject, ": times") { // of a row
				if a.refuse += d.Text; !a.may() {
					t.Errorf("%s: doctor: %s", a, d.Text)
				}
			}
		}
		if a.refuse != "" {
			refusedSources = append(refusedSources, a.config(url))
			continue
		}
		sources = append(sources, a.config(url))
		for _, row := range a.rows {
			bus.deny[row.mark] = row.deny
		}
	}
	if len(refusedSources) > 0 {
		o, err := outrider.New(configuredOnly(t, refusedSources...), to, quiet)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = o.Run(ctx)
		cancel()
		for _, a := range tables {
			if a.refuse != "" && (err == nil || !strings.Contains(err.Error(), a.name)) {
				t.Errorf("%s: init or doctor refuses it (%s), but run does not: %.500v", a, a.refuse, err)
			}
		}
	}
	right := slices.DeleteFunc(tables, func(a *anyTable) bool { return a.refuse != "" })
	stop := relay(t, configuredOnly(t, sources...), to)
	bus.settles(t, right)
	bus.judge(t, right, bus.delivered)
	bus.judge(t, right, bus.operated)
	bus.settles(t, right)
	stop()
	bus.judge(t, right, bus.delivered)
}

// judge runs a judgement of each table.
func (r *anyReceiver) judge(t *testing.T, tables []*anyTable, by func(*testing.T, *anyTable)) {
	t.Helper()
	for _, a := range tables {
		t.Run(a.String(), func(t *testing.T) {
			a.wrong = nil
			by(t, a)
			for i, text := range a.wrong {
				if i == 3 {
					t.Errorf("and %d more", len(a.wrong)-i)
					break
				}
				t.Error(text)
			}
		})
	}
}

// anyTables is how many tables a database has usually, and in a soak all that it takes for each pair of types.
func anyTables(brief int) int { return testenv.Size(brief, 1<<20) }
