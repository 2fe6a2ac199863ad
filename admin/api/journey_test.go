package api_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// An event in flight is found at the instance that has it, with its attempt, and then it is
// known when it was settled.
func TestAnEventInFlightIsFound(t *testing.T) {
	t.Parallel()
	s := onSQLite(t)
	s.hold.Store(true)
	s.publish("a", `{"customer": "kind"}`)
	s.publish("b", `{"customer": "kind"}`)
	s.until("a is at the receiver", func() bool { return s.held.Load() == 2 })
	for _, id := range []string{"a", "b"} {
		s.want("read", "GET", "/events/"+id, "", `"where":"in_flight"`, `"attempt":1`, `being delivered`, `"since":`, `"slot":`)
	}
	s.hold.Store(false)
	s.until("it is known when a was settled", func() bool {
		_, a := s.ask("read", "GET", "/events/a", "")
		text, _ := json.Marshal(a)
		return strings.Contains(string(text), `"where":"settled"`)
	})
	s.publish("c", `{"customer": "kind"}`) // in a lane that has settled before, or not
	s.until("c is settled", func() bool {
		_, c := s.ask("read", "GET", "/events/c", "")
		text, _ := json.Marshal(c)
		return strings.Contains(string(text), `"where":"settled"`)
	})
}
