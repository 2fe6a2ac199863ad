package queuetable

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// plainLayout has names that are in no statement otherwise.
func plainLayout() Layout {
	return Layout{
		Columns: Columns{Key: "zzkey", Payload: "zzpayload", Status: "zzstatus", Created: "zzcreated", Claimed: "zzclaimed", Type: "zztype",
			Group: "zzgroup", Attempts: "zzattempts", NextAttempt: "zznext", Done: "zzdone", Error: "zzerror", Headers: "zzheaders"},
		Statuses: Statuses{Pending: "zzpending", Retrying: "zzretrying", Processing: "zzprocessing", Done: "zzfinished", Dead: "zzdead"},
	}
}

// statements are all that are made for a layout.
func statements(table pgx.Identifier, layout *Layout, keyType string) (all []string) {
	q := newSQL(table.Sanitize(), layout)
	q.types = queueTypes{key: keyType, group: "text", status: keyType, created: "timestamptz", claimed: "timestamptz", payload: "jsonb"}
	for _, indexes := range []queueIndexes{{}, {whole: true, aged: true, heldAged: true}, {keyed: true, aged: true}} {
		t := q.text(indexes)
		all = append(all, t.everything, t.held, t.first, t.next, t.latest, t.later, t.look, t.take, t.takeAll, t.done,
			t.retry, t.dead, t.put, t.extend, t.recover, q.groups(layout.Statuses.Pending, true), q.groups(layout.Statuses.Pending, false),
			q.unfinished(indexes), q.count(), q.sample())
	}
	for _, s := range q.wanted(table) {
		all = append(all, s.Create)
	}
	return all
}

// A name goes into a statement quoted, once, and as it is, whatever is in it: the
// statements are those for plain names with the plain names replaced.
func FuzzNamesInQueueStatements(f *testing.F) {
	for _, name := range []string{"{t}", "{key}", "{set_status}", "$1", "%s", `a"b`, "a'b", `a\b`, "a\nb; DROP TABLE x; --", "{is_dead}", "}{", "ä", "{group?}", "{index}"} {
		f.Add(name, name+"2")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == b || a == "" || b == "" || strings.ContainsRune(a+b, 0) || !utf8.ValidString(a+b) || strings.Contains(a+b, "zz") || len(a+b) > 30 {
			return
		}
		plain, layout := plainLayout(), plainLayout()
		c := &layout.Columns
		c.Key, c.Status, c.Group, c.Attempts, c.Error = a, b, a+b, b+a, a+a
		s := &layout.Statuses
		s.Pending, s.Retrying, s.Done, s.Dead = a, b, a+b, b+a
		keyType := pgx.Identifier{"types", a}.Sanitize()
		got := statements(pgx.Identifier{b, a}, &layout, keyType)
		want := strings.NewReplacer(
			`"zzschema"`, pg.QuoteName(b), `"zztable"`, pg.QuoteName(a), `"zztable_`, strings.TrimSuffix(pg.QuoteName(a), `"`)+"_", "zzkeytype", keyType,
			`"zzkey"`, pg.QuoteName(a), `"zzstatus"`, pg.QuoteName(b), `"zzgroup"`, pg.QuoteName(a+b), `"zzattempts"`, pg.QuoteName(b+a), `"zzerror"`, pg.QuoteName(a+a),
			"'zzpending'", pg.Literal(a), "'zzretrying'", pg.Literal(b), "'zzfinished'", pg.Literal(a+b), "'zzdead'", pg.Literal(b+a))
		for i, text := range statements(pgx.Identifier{"zzschema", "zztable"}, &plain, "zzkeytype") {
			if text = want.Replace(text); got[i] != text {
				t.Fatalf("got\n%s\nwant\n%s", got[i], text)
			}
		}
	})
}
