package settling

import (
	"log/slog"
	"testing"
	"time"
)

func quietSettler() *Settler {
	return New(nil, slog.New(slog.DiscardHandler), time.Second, time.Second)
}

// A write is timed only where its time is wanted.
func TestWritesAreTimedOnRequest(t *testing.T) {
	s := quietSettler()
	if n := testing.AllocsPerRun(100, func() { s.Begin(3, "lanes")(nil) }); n != 0 {
		t.Errorf("a write that is not timed allocates %v times", n)
	}
	var got []Settle
	s.Settled = func(x Settle) { got = append(got, x) }
	s.Begin(3, "lanes")(nil)
	if len(got) != 1 || got[0].Count != 3 || got[0].Unit != "lanes" || got[0].Target != "state store" || got[0].Began.IsZero() || got[0].Ended.Before(got[0].Began) {
		t.Errorf("%+v", got)
	}
}

func BenchmarkSettled(b *testing.B) {
	for name, settled := range map[string]func(Settle){"off": nil, "on": func(Settle) {}} {
		b.Run(name, func(b *testing.B) {
			s := quietSettler()
			s.Settled = settled
			for b.Loop() {
				s.Begin(3, "lanes")(nil)
			}
		})
	}
}
