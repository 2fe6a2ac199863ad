package operate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// asError is errors.As for a type parameter.
func asError[E error](err error, target *E) bool { return errors.As(err, target) }

// A command of a route that does not exist, or whose source has no such thing, names it and changes nothing.
func TestCommandsThatASourceDoesNotHave(t *testing.T) {
	t.Parallel()
	s, ctx := newSite(t), t.Context()
	beginning := operate.Target{Start: adapters.Start{Kind: adapters.StartBeginning}}
	seek := func(route string) error { _, err := s.op.PlanSeek(ctx, route, beginning); return err }
	lag := func(route string) error { _, err := s.op.Lag(ctx, route); return err }
	processing := func(route string) error { _, err := s.op.Processing(ctx, route); return err }
	refuses[operate.Refusal](t, "seek of a queue", seek("work"), `route "work": its source "jobs" is a queue`)
	refuses[operate.Refusal](t, "seek without a table", seek("calls"), `route "calls": its source "calls" has no cursor`)
	refuses[operate.Refusal](t, "lag without a table", lag("calls"), "has no cursor")
	refuses[error](t, "lag before the first run", lag("bus"), operate.ErrNeverRan.Error())
	refuses[error](t, "processing of a log", processing("orders"), `its source "app" is no queue`)
	for name, call := range map[string]func(string) error{
		"seek": seek, "lag": lag, "processing": processing,
		"known":  func(r string) error { return s.op.Known(ctx, r) },
		"pause":  func(r string) error { _, err := s.op.Pause(ctx, adapters.Pause{Route: r}); return err },
		"resume": func(r string) error { _, err := s.op.Resume(ctx, adapters.Pause{Route: r}); return err },
		"rest":   func(r string) error { _, err := s.op.AtRest(ctx, r); return err },
		"forget": func(r string) error { _, err := s.op.Forget(ctx, r, true, "me"); return err },
		"kept":   func(r string) error { _, err := s.op.Kept(ctx, r); return err },
	} {
		refuses[*operate.UnknownRoute](t, name, call("ordres"), `there is no route "ordres"`)
	}
	refuses[*operate.UnknownRoute](t, "names", seek("ordres"), "the configuration has orders, whole, bus, work, calls")
	refuses[*operate.UnknownSource](t, "transactions", second(s.op.Transactions(ctx, "apq")), `no route and no source "apq"; the configuration has the sources [app calls jobs]`)
	refuses[operate.Refusal](t, "transactions of SQLite", second(s.op.EndTransaction(ctx, "app", "1", "me")), "a source of the type sqlite")
	if found, err := s.op.Transactions(ctx, ""); err != nil || len(found) != 0 {
		t.Errorf("transactions of all sources: %v, %v; want none, because none can say", found, err)
	}
	s.audited()
}

func second[T any](_ T, err error) error { return err }

func TestLagAndProcessingOfEachSource(t *testing.T) {
	t.Parallel()
	s, ctx := newSite(t), t.Context()
	if lag, err := s.op.Lag(ctx, "orders"); err != nil || lag.Rows != 3 || lag.Oldest.IsZero() {
		t.Errorf("orders is %+v behind, %v; want the 3 rows above position 2", lag, err)
	}
	s.exec("INSERT INTO outrider_cursor (route, slot, position) VALUES ('whole', 0, 0)")
	refuses[error](t, "lag of a lane that was acquired and never settled", second(s.op.Lag(ctx, "whole")), operate.ErrNeverRan.Error())
	if lag, err := s.op.Lag(ctx, "work"); err != nil || lag.Rows != 1 {
		t.Errorf("work is %+v behind, %v; want the row that waits, not the dead ones", lag, err)
	}
	s.exec("UPDATE outbox SET status = 'publishing', last_attempt_at = '2020-01-01T00:00:00.000Z' WHERE status = 'pending'")
	if p, err := s.op.Processing(ctx, "work"); err != nil || p.Rows != 1 || p.Longest < time.Hour {
		t.Errorf("being processed: %+v, %v; want one for hours", p, err)
	}
	if rest, err := s.op.AtRest(ctx, "orders"); err != nil || !rest {
		t.Errorf("at rest: %v, %v", rest, err)
	}
	s.exec("INSERT INTO outrider_instance (id, lease_until, joined_at, renewed_at) VALUES ('i', " + micros + " + 60000000, " + micros + ", " + micros + ")")
	s.exec("UPDATE outrider_cursor SET owner = 'i' WHERE slot = 7")
	if rest, err := s.op.AtRest(ctx, "orders"); err != nil || rest {
		t.Errorf("at rest: %v, %v; want no, because one lane has a living owner", rest, err)
	}
	s.exec("UPDATE outrider_instance SET lease_until = 1")
	if rest, err := s.op.AtRest(ctx, "orders"); err != nil || !rest {
		t.Errorf("at rest: %v, %v; want yes, because the owner is dead", rest, err)
	}
}

// A pause is of a route, an address or a group. It is made and ended once, and each change is audited once.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s, ctx := newSite(t), t.Context()
	const secret = "https://u:pw@h/x?key=abc"
	for _, p := range []adapters.Pause{
		{Route: "orders"}, {Route: "orders", Address: secret}, {Route: "orders", Group: "customer-7"}, {Route: "work"}, {Route: "calls"},
	} {
		p.By, p.Reason = "me", "because"
		for i, want := range []bool{true, false} {
			if changed, err := s.op.Pause(ctx, p); err != nil || changed != want {
				t.Errorf("pause %+v, call %d: %v, %v; want %v", p, i+1, changed, err, want)
			}
		}
	}
	pauses, err := s.op.Pauses(ctx)
	if must(t, err); len(pauses) != 5 {
		t.Errorf("%d pauses, want 5: %+v", len(pauses), pauses)
	}
	shown := operate.ShownAddress(secret)
	if strings.Contains(shown, "pw") || strings.Contains(shown, "abc") {
		t.Fatalf("the address is shown as %s", shown)
	}
	for _, p := range []adapters.Pause{{Route: "orders", Address: shown}, {Route: "orders", Group: "customer-7"}, {Route: "orders"}, {Route: "work"}, {Route: "calls"}} {
		p.By = "you"
		for i, want := range []bool{true, false} {
			if changed, err := s.op.Resume(ctx, p); err != nil || changed != want {
				t.Errorf("resume %+v, call %d: %v, %v; want %v", p, i+1, changed, err, want)
			}
		}
	}
	refuses[error](t, "a group of a route in global order", second(s.op.Pause(ctx, adapters.Pause{Route: "whole", Group: "g"})), operate.ErrNoGroups.Error())
	refuses[error](t, "a group and an address", second(s.op.Pause(ctx, adapters.Pause{Route: "orders", Group: "g", Address: "a"})), "not of both")
	s.audited("pause by me: 1", "pause by me: 1", "pause by me: 1", "pause by me: 1", "pause by me: 1",
		"resume by you: 1", "resume by you: 1", "resume by you: 1", "resume by you: 1", "resume by you: 1")
}

// Forget deletes what Kept has announced, of a route that is not configured or by force, and never under a living instance.
func TestForget(t *testing.T) {
	t.Parallel()
	s, ctx := newSite(t), t.Context()
	s.exec("INSERT INTO outrider_cursor (route, slot, position) VALUES ('former', 0, 7), ('former', 1, 9)")
	_, err := s.op.Pause(ctx, adapters.Pause{Route: "orders", By: "me"})
	must(t, err)
	if k, err := s.op.Kept(ctx, "orders"); err != nil || k != (operate.Kept{Lanes: 16, Parked: 4, Dead: 3, Pauses: 1, Position: 2}) {
		t.Errorf("kept of orders: %+v, %v", k, err)
	}
	if k, err := s.op.Kept(ctx, "former"); err != nil || k != (operate.Kept{Lanes: 2, Position: 9}) {
		t.Errorf("kept of former: %+v, %v", k, err)
	}
	refuses[operate.Refusal](t, "a configured route", second(s.op.Forget(ctx, "orders", false, "me")), "is in the configuration")
	if n := s.count("SELECT count(*) FROM outrider_cursor WHERE route = 'orders'"); n != 16 {
		t.Errorf("%d cursors are left after a refusal", n)
	}
	s.exec("INSERT INTO outrider_instance (id, lease_until, joined_at, renewed_at) VALUES ('i', " + micros + " + 60000000, " + micros + ", " + micros + ")")
	s.exec("UPDATE outrider_cursor SET owner = 'i' WHERE route = 'former' AND slot = 1")
	refuses[operate.Refusal](t, "a route that an instance works", second(s.op.Forget(ctx, "former", false, "me")), "stop it, or force it")
	s.exec("UPDATE outrider_cursor SET owner = NULL")
	if gone, err := s.op.Forget(ctx, "former", false, "me"); err != nil || gone.Lanes != 2 {
		t.Errorf("forgot %+v, %v", gone, err)
	}
	if gone, err := s.op.Forget(ctx, "orders", true, "me"); err != nil || gone.Lanes != 16 || gone.Parked != 4 {
		t.Errorf("forgot %+v, %v", gone, err)
	}
	if n := s.count("SELECT (SELECT count(*) FROM outrider_cursor) + (SELECT count(*) FROM outrider_parked) + (SELECT count(*) FROM outrider_pause)"); n != 0 {
		t.Errorf("%d rows of state are left", n)
	}
	refuses[*operate.UnknownRoute](t, "a second time", second(s.op.Forget(ctx, "former", false, "me")), "there is no route")
	s.audited("pause by me: 1", "forget by me: 2", "forget by me: 21")
}

func TestInstancesAreRemoved(t *testing.T) {
	t.Parallel()
	s, ctx := newSite(t), t.Context()
	s.exec("INSERT INTO outrider_instance (id, lease_until, joined_at, renewed_at) VALUES ('dead', 1, 1, 1), ('lives', " + micros + " + 60000000, 1, 1)")
	s.exec("UPDATE outrider_cursor SET owner = CASE WHEN slot < 5 THEN 'dead' ELSE 'lives' END")
	all, err := s.op.Instances(ctx)
	if must(t, err); len(all) != 2 {
		t.Fatalf("instances %+v", all)
	}
	for i, want := range []bool{true, false} {
		if removed, err := s.op.RemoveInstance(ctx, "dead", "me"); err != nil || removed != want {
			t.Errorf("call %d: %v, %v", i+1, removed, err)
		}
	}
	if n := s.count("SELECT count(*) FROM outrider_cursor WHERE owner IS NULL"); n != 5 {
		t.Errorf("%d lanes are free, want the 5 of the instance", n)
	}
	s.audited("remove instance by me: 5")
}

// A topic is created only where a route leads and the destination has topics; what is refused is not asked of the brokers.
func TestTopicsThatAreNotCreated(t *testing.T) {
	t.Parallel()
	s, ctx := newSite(t), t.Context()
	create := func(destination, topic string) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return second(s.op.CreateTopic(ctx, destination, adapters.NewTopic{Name: topic}, "me"))
	}
	refuses[*operate.UnknownDestination](t, "unknown", create("buss", "t"), `there is no destination "buss": the configuration has bus, nowhere`)
	refuses[operate.Refusal](t, "without topics", create("nowhere", "t"), "a destination of the type discard has no topics to create")
	refuses[operate.Refusal](t, "no route", create("bus", "shop.customer.created"), `no route leads to topic "shop.customer.created" of destination "bus": none of those that use it matches a message whose Type is "customer.created"`)
	refuses[operate.Refusal](t, "not of the template", create("bus", "other"), `"other"`)
	s.audited()
}
