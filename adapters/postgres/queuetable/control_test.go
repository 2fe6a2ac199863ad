package queuetable

import "testing"

// A name with a line break would end a comment of printed SQL, and what is behind it
// would run.
func TestNamesOfQueueTablesHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"\n", "\r", "\x00", "\t", "\x7f", "\u0085", "\x1b"} {
		hostile := `a` + c + `DROP TABLE orders; --`
		for _, change := range []func(*Layout){
			func(l *Layout) { l.Columns.Key = hostile },
			func(l *Layout) { l.Columns.Error = hostile },
			func(l *Layout) { l.Statuses.Dead = hostile },
		} {
			l := Layout{
				Columns:  Columns{Key: "id", Type: "type", Payload: "payload", Status: "status", Created: "created", Claimed: "claimed"},
				Statuses: Statuses{Pending: "p", Processing: "w", Done: "d", Dead: "x"},
			}
			if err := validate(&l); err != nil {
				t.Fatal(err)
			}
			change(&l)
			if err := validate(&l); err == nil {
				t.Errorf("%+v is accepted", l)
			}
		}
	}
}
