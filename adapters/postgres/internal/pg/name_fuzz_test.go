package pg

import (
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// FuzzTableName parses names of tables: what comes of one names the same table when it
// is quoted and parsed again, and cannot end its quotes.
func FuzzTableName(f *testing.F) {
	for _, name := range []string{"outrider_outbox", `"Shop"."Out""box"`, "a.b.c", `"`, "x; DROP TABLE y", "\x00", `"a".`, "é.ß", "{t}", "a\nb"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		parts, err := ParseTable(name)
		if err != nil {
			return
		}
		for _, part := range append(pgx.Identifier{DerivedName(parts, "_slot_xid_position_idx")}, parts...) {
			if part == "" || len(part) > LongestName || !utf8.ValidString(part) {
				t.Errorf("%q has the part %q", name, part)
			}
		}
		again, err := ParseTable(parts.Sanitize())
		if err != nil || again.Sanitize() != parts.Sanitize() {
			t.Errorf("%q is %s, and that is %s, %v", name, parts.Sanitize(), again.Sanitize(), err)
		}
	})
}
