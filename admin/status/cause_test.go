package status

import (
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// A cause is one line, also where the error is a document, and says how many addresses are concerned.
func TestACauseIsOneLine(t *testing.T) {
	t.Parallel()
	long := "answers 502:\n<html>\r\n" + strings.Repeat("<p>a long page</p>\n", 100)
	down := []Stop{{Address: "http://a/", Reason: "webhook: http://a/ answers 503"}}
	for name, tt := range map[string]struct {
		route        RouteStatus
		text, action string // what they begin with
	}{
		"held":       {RouteStatus{State: StateHeld, Held: 1, Failing: &Failing{Error: long}}, "1 message is held, 0 waiting behind others: answers 502: <html> <p>a long page</p> <p>", "redrive"},
		"no further": {RouteStatus{State: StateHeld, Held: 1, Failing: &Failing{Error: "answers 422 (no further attempts)", Attempts: 2}}, "1 message is held, 0 waiting behind others: answers 422 (2 attempts, no further ones)", "redrive"},
		"retrying":   {RouteStatus{State: StateRetrying, Retrying: 2, Failing: &Failing{Error: long, Attempts: 3, Status: adapters.ParkedRetrying}}, "2 messages are retrying, ", ""},
		"dead":       {RouteStatus{State: StateDead, Dead: 2, Failing: &Failing{Error: long}}, "the route works; 2 dead messages wait: ", "redrive or purge"},
		"an address": {RouteStatus{State: StateUnavailable, Down: down}, "address http://a/ is unavailable: answers 503", "fix the receiver; Outrider is probing it"},
		"a topic":    {RouteStatus{State: StateUnavailable, Down: []Stop{{Address: "orders", Reason: "no broker answers"}}}, "address orders is unavailable: no broker", "fix the destination; "},
		"no topic": {RouteStatus{State: StateUnavailable, to: "bus", Down: []Stop{{Address: "orders", Reason: `kafka: topic "orders" does not exist: create it with kafka-topics.sh, or outrider topic create DESTINATION orders --yes`}}},
			"address orders is unavailable: ", "create the topic: outrider topic create bus orders --yes; Outrider is probing it"},
		"addresses":     {RouteStatus{State: StateUnavailable, Down: []Stop{down[0], down[0], {Address: "http://b/", Durable: true, By: "alice"}}}, "3 addresses are not in use; http://b/ is paused by alice", "resume it"},
		"slow database": {RouteStatus{State: StateFailing, StateError: "settle: timeout: context deadline exceeded"}, "progress cannot be written: ", "the database answers too slowly"},
	} {
		c := tt.route.Cause()
		if !strings.HasPrefix(c.Text, tt.text) || !strings.HasPrefix(c.Action, tt.action) || strings.ContainsAny(c.Text, "\r\n") || len(c.Text) > 500 {
			t.Errorf("%s: %q, %q", name, c.Text, c.Action)
		}
	}
}
