package logtable

import (
	"strings"
	"testing"
)

// A name with a line break would end a comment of printed SQL, and what is behind it
// would run.
func TestNamesOfLogTablesHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"\n", "\r", "\x00", "\t", "\x7f", "\u0085", "\x1b"} {
		hostile := `a` + c + `DROP TABLE orders; --`
		if _, err := InitSQL(Config{Layout: "watermill", Topic: hostile}); err == nil {
			t.Errorf("topic %q is accepted", hostile)
		}
		columns := Columns{Position: "p", XID: "x", ID: hostile, Payload: "b", Type: "=t"}
		if text, err := InitSQL(Config{Layout: LayoutCustom, Table: "t", Columns: columns}); err == nil || strings.Contains(text, "DROP") {
			t.Errorf("column %q is accepted: %s", hostile, text)
		}
	}
}
