package queuetable

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// typed makes a table whose key or group has a type.
func (e *queueEnv) typed(t *testing.T, column, typ string) *queueEnv {
	t.Helper()
	types := map[string]string{"key": "text", "group": "text", "status": "text", "error": "text", column: typ}
	e = e.in(t, Layout{
		Columns: Columns{Key: "id", Type: "kind", Payload: "body", Status: "state", Created: "made", Claimed: "taken", Group: "grp", Attempts: "tries",
			NextAttempt: "next_at", Done: "done_at", Error: "err"},
		Statuses: Statuses{Pending: "pending", Retrying: "failed", Processing: "processing", Done: "done", Dead: "dead"},
	}, Table{Name: "jobs"})
	e.exec("CREATE TABLE " + e.tables[0].Name + " (id " + types["key"] + " NOT NULL UNIQUE, kind text NOT NULL DEFAULT 'k', body text NOT NULL DEFAULT '{}', state " + types["status"] +
		" DEFAULT 'pending' NOT NULL, grp " + types["group"] + ", made timestamptz NOT NULL DEFAULT clock_timestamp(), taken timestamptz, tries int NOT NULL DEFAULT 0, " +
		"next_at timestamptz, done_at timestamptz, err " + types["error"] + ")")
	return e
}

// indexed is typed with the indexes.
func (e *queueEnv) indexed(t *testing.T, column, typ string) *queueEnv {
	t.Helper()
	e = e.typed(t, column, typ)
	_, err := Init(e.ctx, e.pool, e.layout, false, e.tables...)
	pgtest.Must(t, err)
	return e
}

// A key or a group of any type is either right, from the claim to the operators' commands, or refused by check and doctor.
func TestG1_KeysAndGroupsOfEachType(t *testing.T) {
	t.Parallel()
	base := newQueueEnv(t)
	base.exec("CREATE TYPE colour AS ENUM ('red', 'green', 'blue'); CREATE DOMAIN code AS char(6); CREATE DOMAIN inner_code AS code CHECK (VALUE <> 'x'); CREATE TYPE pair AS (a int, b int)")
	base.exec("CREATE EXTENSION IF NOT EXISTS citext")
	base.exec("CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	for typ, c := range map[string]struct{ a, b, refused string }{
		"char(36)":                   {"0b1d", "0b1e", ""},
		"bpchar":                     {"a", "b", ""},
		"varchar(5)":                 {"abcde", "abcdf", ""},
		"text COLLATE \"C\"":         {`a"\,{}`, "b ", ""},
		"name":                       {"a", "b", ""},
		"\"char\"":                   {"a", "b", ""},
		"uuid":                       {"6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11", "6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c12", ""},
		"smallint":                   {"1", "-2", ""},
		"bigint":                     {"9223372036854775807", "2", ""},
		"numeric":                    {"1.50", "1e20", ""},
		"numeric(20)":                {"12345678901234567890", "2", ""},
		"boolean":                    {"true", "false", ""},
		"bytea":                      {`\x00ff`, `\x41`, ""},
		"bit(8)":                     {"10101010", "01010101", ""},
		"bit varying(9)":             {"1", "10", ""},
		"date":                       {"2026-01-01", "infinity", ""},
		"timestamp":                  {"2026-01-01", "-infinity", ""},
		"timestamptz":                {"2026-10-25 02:30+02", "2026-10-25 02:30+01", ""},
		"inet":                       {"10.0.0.1", "10.0.0.1/8", ""},
		"public.colour":              {"red", "blue", ""},
		"public.code":                {"abc", "abd", ""},
		"public.inner_code":          {"abc", "abd", ""},
		"public.citext":              {"a", "b", "is public.citext"},
		"text COLLATE public.folded": {"a", "B", "nondeterministic"},
		"text[]":                     {"{a}", "{b}", "is text[]"},
		"public.pair":                {"(1,2)", "(1,3)", "is public.pair"},
		"int4range":                  {"[1,2)", "[2,3)", "is int4range"},
		"jsonb":                      {"1.0", "2", "is jsonb"},
		"double precision":           {"0", "1", "is double precision"},
	} {
		for _, column := range []string{"key", "group"} {
			t.Run(column+" "+typ, func(t *testing.T) {
				t.Parallel()
				e := base.indexed(t, column, typ)
				keys, groups := []string{"k1", "k2", "k3"}, []string{c.a, c.a, c.b}
				if typ == "numeric" {
					groups[1] = "1.5"
				}
				if column == "key" {
					keys, groups = []string{c.a, c.b}, []string{"g", "g"}
				}
				for i := range keys {
					e.exec("INSERT INTO "+e.tables[0].Name+" (id, grp) SELECT $1::text::"+typeAlone(typ, column == "key")+", $2::text::"+typeAlone(typ, column == "group"), keys[i], groups[i])
				}
				q := opened(t, e)
				if err := q.Check(e.ctx); c.refused != "" && (column != "key" || !strings.Contains(c.refused, "nondeterministic")) {
					if err == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(findings(t, q), c.refused) {
						t.Fatalf("not refused: %v", err)
					}
					return
				} else if err != nil {
					t.Fatal(err)
				}
				e.followRows(t, q, len(keys), column == "group")
			})
		}
	}
}

// A column that does not take every status is refused, with the values that it does not take.
func TestStatusesThatTheColumnDoesNotTake(t *testing.T) {
	t.Parallel()
	base := newQueueEnv(t)
	base.exec("CREATE TYPE state AS ENUM ('pending', 'failed', 'processing', 'done'); CREATE TYPE whole AS ENUM ('pending', 'failed', 'processing', 'done', 'dead')")
	base.exec("CREATE FUNCTION theirs(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RAISE EXCEPTION 'called'; END$$; CREATE DOMAIN open AS varchar(20)")
	for typ, refused := range map[string]string{
		"public.state": "dead", "public.whole": "", "char(10)": "", "varchar(6)": "processing", `"char"`: "pending", "open": "",
		"text CHECK (state = ANY (ARRAY['pending', 'failed', 'processing', 'done']))": "dead",
		"text CONSTRAINT wide CHECK (state ~ '^[a-z]+$') CHECK (length(state) < 20)":  "",
		"theirs": "",
	} {
		t.Run(typ, func(t *testing.T) {
			e := base.typed(t, "status", strings.Replace(typ, "theirs", "text", 1))
			if refused == "" { // the index of dead rows names the status
				_, err := Init(e.ctx, e.pool, e.layout, false, e.tables...)
				pgtest.Must(t, err)
			}
			if typ == "theirs" {
				e.exec("ALTER TABLE " + e.tables[0].Name + " ADD CHECK (public.theirs(state)) NOT VALID")
			}
			q := opened(t, e)
			err, found := q.Check(e.ctx), findings(t, q)
			if said := "does not take the value \"" + refused; refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), said) || !strings.Contains(found, said)) {
				t.Fatalf("%v\n%s", err, found)
			}
			if refused == "" && strings.Contains(found, "does not take") {
				t.Error(found)
			}
		})
	}
}

// typeAlone is the type of a column for a cast.
func typeAlone(typ string, here bool) string {
	if !here {
		return "text"
	}
	typ, _, _ = strings.Cut(typ, " COLLATE")
	return typ
}

// followRows takes rows through all that is done with them.
func (e *queueEnv) followRows(t *testing.T, q *Queue, want int, grouped bool) {
	t.Helper()
	rows := claimAll(t, q)
	if len(rows) != want {
		t.Fatalf("%d of %d rows were claimed", len(rows), want)
	}
	if grouped && (rows[0].Group != rows[1].Group || rows[1].Group == rows[2].Group) {
		t.Errorf("groups %q, %q, %q", rows[0].Group, rows[1].Group, rows[2].Group)
	}
	claims := make([]*adapters.Claim, len(rows))
	for i, row := range rows {
		claims[i] = row.Claim
	}
	if lost, err := q.Extend(e.ctx, claims); err != nil || len(lost) > 0 {
		t.Fatalf("extend: %d lost, %v", len(lost), err)
	}
	if n, err := q.Recover(e.ctx); err != nil || n > 0 {
		t.Fatalf("recovered %d of its own rows, %v", n, err)
	}
	for _, row := range rows {
		settle(t, q, adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeRetry, Attempts: 1, Error: "once", At: time.Now().Add(-time.Minute)})
	}
	if page, err := q.WaitingByAge(e.ctx, adapters.DeadKey{}, 1); err != nil || len(page) != 1 {
		t.Fatalf("%d wait, %v", len(page), err)
	} else if more, err := q.WaitingByAge(e.ctx, page[0].At, 10); err != nil || len(more) != want-1 {
		t.Fatalf("%d wait behind the first, %v", len(more), err)
	}
	again := claimAll(t, q)
	if len(again) != want {
		t.Fatalf("%d of %d rows were claimed again", len(again), want)
	}
	for _, row := range again {
		settle(t, q, adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDead, Attempts: 2, Error: "twice"})
	}
	ids, keys := deadIDs(t, q, adapters.DeadFilter{})
	if len(ids) != want {
		t.Fatalf("dead: %q", ids)
	}
	for _, id := range ids {
		if found, err := q.Find(e.ctx, id, 10); err != nil || len(found.Rows) != 1 || found.Rows[0].Row.ID != id {
			t.Errorf("find %q: %+v, %v", id, found.Rows, err)
		}
		if one, _ := deadIDs(t, q, adapters.DeadFilter{ID: id}); !slices.Equal(one, []string{id}) {
			t.Errorf("dead %q: %q", id, one)
		}
	}
	if n, err := q.ChangeDead(e.ctx, adapters.ParkedRedrive, keys[:1], unrecorded); err != nil || n != 1 {
		t.Fatalf("redriven %d, %v", n, err)
	}
	if n, err := q.ChangeDead(e.ctx, adapters.ParkedPurge, keys[1:], unrecorded); err != nil || n != want-1 {
		t.Fatalf("purged %d, %v", n, err)
	}
	last := claimAll(t, q)
	if len(last) != 1 {
		t.Fatalf("%d rows were claimed after the redrive", len(last))
	}
	settle(t, q, adapters.ClaimResult{Claim: last[0].Claim, Outcome: outbox.OutcomeDelivered})
}

// An error is cut to what its column holds.
func TestErrorsFitTheirColumn(t *testing.T) {
	t.Parallel()
	base := newQueueEnv(t)
	base.exec("CREATE DOMAIN short AS varchar(7)")
	for typ, want := range map[string]string{"varchar(10)": "ééééééé123", "public.short": "ééééééé", "text": "ééééééé1234567"} {
		e := base.indexed(t, "error", typ)
		e.exec("INSERT INTO " + e.tables[0].Name + " (id) VALUES ('a'), ('b')")
		q := opened(t, e)
		pgtest.Must(t, q.Check(e.ctx))
		rows := claimAll(t, q)
		settle(t, q, adapters.ClaimResult{Claim: rows[0].Claim, Outcome: outbox.OutcomeDead, Attempts: 1, Error: "ééééééé1234567"})
		settle(t, q, adapters.ClaimResult{Claim: rows[1].Claim, Outcome: outbox.OutcomeRetry, Attempts: 1, Error: "ééééééé1234567"})
		for _, row := range e.rows() {
			if row.Error != want {
				t.Errorf("%s has %q, want %q", typ, row.Error, want)
			}
		}
	}
}
