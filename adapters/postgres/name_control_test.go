package postgres

import (
	"strings"
	"testing"
)

// A name with a line break would end a comment of printed SQL, and what is behind it
// would run.
func TestNamesHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"\n", "\r", "\x00", "\t", "\x7f", "\u0085", "\x1b"} {
		hostile := `a` + c + `DROP TABLE orders; --`
		if _, err := parseTable(`"` + hostile + `"`); err == nil {
			t.Errorf("table %q is accepted", hostile)
		}
		if _, err := InitLogSQL(LogConfig{Layout: LayoutWatermill, Topic: hostile}); err == nil {
			t.Errorf("topic %q is accepted", hostile)
		}
		columns := Columns{Position: "p", XID: "x", ID: hostile, Payload: "b", Type: "=t"}
		if text, err := InitLogSQL(LogConfig{Layout: LayoutCustom, Table: "t", Columns: columns}); err == nil || strings.Contains(text, "DROP") {
			t.Errorf("column %q is accepted: %s", hostile, text)
		}
		for _, change := range []func(*QueueLayout){
			func(l *QueueLayout) { l.Columns.Key = hostile },
			func(l *QueueLayout) { l.Columns.Error = hostile },
			func(l *QueueLayout) { l.Statuses.Dead = hostile },
		} {
			l := QueueLayout{
				Columns:  QueueColumns{Key: "id", Type: "type", Payload: "payload", Status: "status", Created: "created", Claimed: "claimed"},
				Statuses: QueueStatuses{Pending: "p", Processing: "w", Done: "d", Dead: "x"},
			}
			if err := l.validate(); err != nil {
				t.Fatal(err)
			}
			change(&l)
			if err := l.validate(); err == nil {
				t.Errorf("%+v is accepted", l)
			}
		}
	}
}
