package system_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// anyLog is an application's log table of a combination of types.
type anyLog struct {
	anyTable
	source, create string
}

// anyLogs are tables of pairs of types, at most so many.
func anyLogs(of *anyDatabase, db *sql.DB, most int, positions []string) (all []*anyLog) {
	roles := []string{"key", "group", "payload", "created"}
	sizes := []int{len(positions)}
	of.columns["created"] = slices.DeleteFunc(of.columns["created"], func(k kind) bool { return k.sql == "integer" })
	for i, k := range of.columns["payload"] { // an empty one is delivered, and has no mark
		of.columns["payload"][i].values = slices.DeleteFunc(k.values, func(v string) bool { return v == "!''" })
	}
	of.text = func(column string, _ kind) string { return "CAST(" + column + " AS text)" }
	for _, role := range roles {
		sizes = append(sizes, len(of.columns[role]))
	}
	for _, c := range pairsOf(sizes, most) {
		l := &anyLog{anyTable: anyTable{db: db, of: of, name: fmt.Sprintf("t%03d", len(all)), layout: "log", kinds: map[string]kind{}}}
		for i, role := range roles {
			l.kinds[role] = of.columns[role][c[i+1]]
		}
		position := positions[c[0]]
		l.kinds["status"] = kind{sql: position}
		columns := []string{"marking varchar(40)", "no " + position}
		for i, role := range roles {
			columns = append(columns, []string{"event_id", "grp", "body", "made"}[i]+" "+l.kinds[role].sql)
		}
		if of.name == "postgres" {
			columns = append(columns, "xid xid8 NOT NULL DEFAULT pg_current_xact_id()", "UNIQUE (xid, no)")
		}
		l.create = "CREATE TABLE " + l.name + " (" + strings.Join(columns, ", ") + ")"
		all = append(all, l)
	}
	return all
}

func (l *anyLog) prepareLog(t *testing.T, url string) {
	t.Helper()
	l.exec(t, l.create)
	xid := ""
	if l.of.name == "postgres" {
		xid = "xid: xid, "
	}
	l.source = fmt.Sprintf("  %s: {%s, layout: custom, table: %s, columns: {position: no, %sid: event_id, payload: body, type: =t, group: grp, created_at: made}, poll: {min: 5ms, max: 100ms}}\n",
		l.name, fmt.Sprintf(l.of.source, url), l.name, xid)
	for i := range anyRows {
		row, values := anyRow{mark: fmt.Sprintf("%s.%02d", l.name, i), deny: i%5 == 1}, []string{}
		for at, role := range []string{"key", "group", "payload", "created"} {
			k, value := l.kinds[role], "NULL"
			switch {
			case role == "key" && i >= len(k.values):
				value = strings.ReplaceAll(k.key, "#", fmt.Sprintf("%02d", i))
			case len(k.values) > 0:
				value = k.values[i/(1+at%3)%len(k.values)]
			}
			if value == "" { // there are no more keys
				value = "NULL"
			}
			row.dies = row.dies || value[0] == '!' && role != "created"
			row.free = row.free || value[0] == '~' || value == "NULL" && role == "key" || value[0] == '!'
			values = append(values, strings.ReplaceAll(strings.TrimLeft(value, "!~"), "#", row.mark))
		}
		row.insert = fmt.Sprintf("INSERT INTO %s (marking, event_id, grp, body, made) VALUES ('%s', %s)", l.name, row.mark, strings.Join(values, ", "))
		if _, err := l.db.ExecContext(t.Context(), row.insert); err == nil {
			l.rows = append(l.rows, row)
		}
	}
}

// dead are the marks of dead rows with their ids. A row is known by its position.
func (l *anyLog) deadMarks(t *testing.T, op *operate.Operator) map[string]operate.ParkedMessage {
	t.Helper()
	list, err := op.Parked(t.Context(), adapters.ParkedFilter{Route: l.name, Limit: 1000})
	must(t, err)
	marks := l.ask(t, "SELECT no, marking FROM {t}")
	dead := map[string]operate.ParkedMessage{}
	for _, m := range list {
		if m.Status == adapters.ParkedDead {
			dead[marks[strconv.FormatInt(m.Position, 10)][1]] = m
		}
	}
	return dead
}

// judged checks the outcome of each row: it was delivered once, in the order of its group, or is dead with a reason.
func (l *anyLog) judged(t *testing.T, r *anyReceiver, op *operate.Operator) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	dead, groups := l.deadMarks(t, op), l.ask(t, "SELECT marking, "+l.of.text("grp", l.kinds["group"])+", no FROM {t}")
	at, last := map[string]int{}, map[string]string{}
	for i, mark := range r.places {
		at[mark] = i
	}
	for _, row := range l.rows {
		took, d := r.took[row.mark], dead[row.mark]
		isDead := d.ID != "" || d.LastError != ""
		switch {
		case len(took)+map[bool]int{true: 1}[isDead] != 1 || isDead && d.LastError == "":
			l.isWrong("row %s was delivered %d times, and is dead: %v %q: %.200s", row.mark, len(took), isDead, d.LastError, row.insert)
		case row.free:
		case isDead != (row.dies || row.deny && !r.open):
			l.isWrong("row %s is dead: %v (%s): %.200s", row.mark, isDead, d.LastError, row.insert)
		}
		if len(took) == 0 || row.deny {
			continue
		}
		group := strings.TrimPrefix(groups[row.mark][1], "NULL")
		if got := took[0].Metadata[outbox.MetaGroup]; got != group && !l.kinds["group"].may && !l.kinds["group"].bytes {
			l.isWrong("row %s is of group %q, want %q", row.mark, got, group)
		}
		if before := last[group]; group != "" && before != "" && at[before] > at[row.mark] {
			l.isWrong("row %s came before %s", row.mark, before)
		}
		last[group] = row.mark
	}
}

func (l *anyLog) operatedOn(t *testing.T, r *anyReceiver, op *operate.Operator) {
	t.Helper()
	dead, n := l.deadMarks(t, op), map[string]int{}
	for _, m := range dead {
		n[m.ID]++
	}
	change := func(action adapters.ParkedAction, id string, want int) {
		t.Helper()
		got, err := op.ChangeParked(t.Context(), adapters.ParkedCommand{Action: action, Filter: adapters.ParkedFilter{Route: l.name, ID: id}, By: "me"}, operate.RateLimit{})
		if err != nil || got != want {
			t.Errorf("%s: %s of %q: %d rows, %v; want %d", l, action, id, got, err, want)
		}
	}
	r.mu.Lock()
	r.open = true
	r.mu.Unlock()
	for mark, m := range dead {
		if m.ID == "" || n[m.ID] > 1 {
			continue
		}
		change(adapters.ParkedPurge, m.ID+" x", 0)
		change(adapters.ParkedPurge, m.ID, 1)
		for i := range l.rows {
			if l.rows[i].mark == mark {
				l.rows = append(l.rows[:i], l.rows[i+1:]...)
				break
			}
		}
		delete(dead, mark)
		break
	}
	change(adapters.ParkedRedrive, "", len(dead))
}

// Log tables of applications are of any types that the docs allow: each row is delivered once, or is visibly dead without stopping other rows, and commands work on them.
func TestLogTablesOfAnyType(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]*anyDatabase{"PostgreSQL": postgresTypes(), "SQLite": sqliteTypes()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var db *sql.DB
			var url string
			positions := []string{"integer PRIMARY KEY AUTOINCREMENT"}
			if name == "SQLite" {
				url = filepath.Join(t.TempDir(), "any.db")
				db = openSQLite(t, url)
			} else {
				url = testenv.Postgres(t)
				db = openPostgres(t, url)
				positions = []string{"bigint GENERATED ALWAYS AS IDENTITY UNIQUE", "integer GENERATED ALWAYS AS IDENTITY (MINVALUE -2147483648 START -2147483648) UNIQUE", "smallint GENERATED ALWAYS AS IDENTITY (MINVALUE -9 START -9) UNIQUE"}
				for _, statement := range of.before {
					_, err := db.ExecContext(t.Context(), statement)
					must(t, err)
				}
			}
			logs := anyLogs(of, db, anyTables(16), positions)
			var sources []string
			for _, l := range logs {
				l.prepareLog(t, url)
				sources = append(sources, l.source)
			}
			cfg := configuredOnly(t, sources...)
			_, err := operate.Init(t.Context(), cfg)
			must(t, err)
			bus := &anyReceiver{deny: map[string]bool{}, tried: map[string]int{}, took: map[string][]*message.Message{}}
			for _, l := range logs {
				for _, row := range l.rows {
					bus.deny[row.mark] = row.deny
				}
			}
			stop := relay(t, cfg, outrider.WithDestination("bus", bus))
			asOperator(t, cfg, func(op *operate.Operator) {
				for _, by := range []func(*anyLog){func(*anyLog) {}, func(l *anyLog) { l.operatedOn(t, bus, op) }} {
					for _, l := range logs {
						by(l)
					}
					var wrong []string
					eventuallyOr(t, func() bool {
						wrong = nil
						for _, l := range logs {
							l.wrong = nil
							if l.judged(t, bus, op); len(l.wrong) > 0 {
								wrong = append(wrong, l.String()+": "+l.wrong[0])
							}
						}
						return len(wrong) == 0
					})
					if len(wrong) > 0 {
						t.Error(strings.Join(wrong, "\n"))
					}
				}
			})
			stop()
		})
	}
}
