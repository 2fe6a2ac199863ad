package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// server is a database of which only sessions matter.
type server struct {
	opened  int64
	former  [][]int64 // as given to each Open
	refuses bool      // sessions that are opened
	broken  bool      // the session's connection
	closed  []string
	execs   []string
}

type fakeSession struct {
	*server
	id int64
}

var errBroken = errors.New("broken")

func (s *fakeSession) Renew(context.Context, time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	if s.broken {
		return nil, errBroken
	}
	return map[adapters.LaneRef]adapters.LaneMark{{Route: "r"}: {Epoch: s.id}}, nil
}

func (s *fakeSession) Lost(err error) bool { return errors.Is(err, errBroken) }
func (s *fakeSession) ID() int64           { return s.id }
func (s *fakeSession) Close(lost bool)     { s.closed = append(s.closed, fmt.Sprint(s.id, " ", lost)) }

func (s *server) Each(context.Context, *sqltext.Statement, func(func(...any) error) error) error {
	return nil
}

func (s *server) Exec(_ context.Context, of *sqltext.Statement) (int64, error) {
	s.execs = append(s.execs, of.SQL())
	return 1, nil
}

func (s *server) store() *Operators {
	return NewOperators(Database{Name: "store", Log: slog.New(slog.DiscardHandler), Pool: s,
		Dialect: Dialect{Dialect: sqltext.Dialect{Param: sqltext.Question}, Names: sqltext.Names{"json": "::json"}},
		Wrap: func(what string, err error) error {
			if err == nil {
				return nil
			}
			return fmt.Errorf("%s: %w", what, err)
		},
		Transact: func(_ context.Context, f func(Tx) error) error { return f(s) },
		Sweep:    func(context.Context) error { return nil },
		Open: func(ctx context.Context, _ string, lease time.Duration, former []int64) (Session, map[adapters.LaneRef]adapters.LaneMark, error) {
			s.opened++
			s.former = append(s.former, slices.Clone(former))
			own := &fakeSession{s, s.opened}
			if s.refuses {
				return own, nil, errors.New("refused")
			}
			s.broken = false
			lanes, err := own.Renew(ctx, lease)
			return own, lanes, err
		}})
}

func TestMembership(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), &server{}
	store := s.store()
	fails := func(want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	works := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	second := func(_ any, err error) error { return err }
	fails("needs an id", store.Join(ctx, "", time.Minute))
	fails("longer than 0", store.Join(ctx, "a", 0))
	fails("has not joined", second(store.Renew(ctx, "a", time.Minute)))
	fails("has not joined", store.Announce(ctx, "a", nil))
	fails("has not joined", store.Leave(ctx, "a"))
	works(store.Join(ctx, "a", time.Minute))
	works(store.Join(ctx, "a", time.Minute)) // it renews
	fails("serves instance", store.Join(ctx, "b", time.Minute))
	fails("has not joined", store.MayAcquire("b", "r", nil))
	fails("slot 4096 is not in 0..4095", store.MayAcquire("a", "r", []int{0, adapters.MaxLanes}))
	works(store.MayAcquire("a", "r", []int{0, adapters.Slots - 1}))
	works(store.Announce(ctx, "a", nil))
	works(store.Leave(ctx, "a"))
	fails("has not joined", store.Leave(ctx, "a"))
	store.CloseSession()
	want := []string{"UPDATE outrider_instance SET routes = ?::json WHERE id = ?", "UPDATE outrider_cursor SET owner = NULL WHERE owner = ?",
		"DELETE FROM outrider_instance WHERE id = ?"}
	if s.opened != 1 || !slices.Equal(s.closed, []string{"1 false"}) || !slices.Equal(s.execs, want) {
		t.Errorf("opened %d, closed %q, executed %q", s.opened, s.closed, s.execs)
	}
}

// A session that is lost is replaced in the same renewal. Those that were given up are ended by the one that takes the lock.
func TestALostSessionIsReplaced(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), &server{}
	store := s.store()
	if err := store.Join(ctx, "a", time.Minute); err != nil {
		t.Fatal(err)
	}
	s.broken, s.refuses = true, true
	for range 2 {
		if _, err := store.Renew(ctx, "a", time.Minute); err == nil || err.Error() != "refused" {
			t.Errorf("without a server: %v", err)
		}
	}
	s.refuses = false
	lanes, err := store.Renew(ctx, "a", time.Minute)
	if err != nil || lanes[adapters.LaneRef{Route: "r"}].Epoch != 4 {
		t.Errorf("renewed %v, %v", lanes, err)
	}
	if want := "[[] [1] [1 2] [1 2 3]]"; fmt.Sprint(s.former) != want {
		t.Errorf("former sessions %v, want %s", s.former, want)
	}
	s.broken = true
	if _, err := store.Renew(ctx, "a", time.Minute); err != nil {
		t.Error(err)
	}
	if want := "[4]"; fmt.Sprint(s.former[4]) != want {
		t.Errorf("after a success the former sessions are %v, want %s", s.former[4], want)
	}
}

// Whatever happens to the connection: one session at most is open, those that were given up are named to the next one until one succeeds, and an
// instance that has not joined, or has left, holds nothing.
func TestSessionsAreNeverTwo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &server{}
		o, ctx := s.store(), context.Background()
		current, former := int64(0), []int64{} // as the store should know them; 0: it has not joined
		abandoned := func(id int64) {
			if id != 0 && !slices.Contains(former, id) {
				former = append(former, id)
				former = former[max(0, len(former)-formerSessions):]
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			var err error
			before, was := s.opened, current
			call := rapid.SampledFrom([]string{"join", "renew", "renew", "renew", "leave", "close", "breaks", "refuses", "accepts"}).Draw(t, "call")
			switch call {
			case "join":
				err = o.Join(ctx, "a", time.Minute)
			case "renew":
				_, err = o.Renew(ctx, "a", time.Minute)
			case "leave":
				err, current = o.Leave(ctx, "a"), 0
			case "close":
				o.CloseSession()
				current = 0
			case "breaks":
				s.broken = true
			default:
				s.refuses = call == "refuses"
			}
			if unjoined := err != nil && strings.Contains(err.Error(), "has not joined"); (call == "renew" || call == "leave") && unjoined != (was == 0) {
				t.Fatalf("%s in session %d: %v", call, was, err)
			}
			if s.opened > before {
				if abandoned(was); !slices.Equal(s.former[len(s.former)-1], former) {
					t.Fatalf("session %d gets the former ones %v, want %v", s.opened, s.former[len(s.former)-1], former)
				}
				if err == nil {
					current, former = s.opened, nil
				} else {
					abandoned(s.opened)
				}
			}
			for id := int64(1); id <= s.opened; id++ {
				if open := !slices.Contains(s.closed, fmt.Sprint(id, " true")) && !slices.Contains(s.closed, fmt.Sprint(id, " false")); open && id != current {
					t.Fatalf("after %s, %v, session %d is open beside %d", call, err, id, current)
				}
			}
		}
	})
}
