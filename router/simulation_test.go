package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// The simulation: so long, so many addresses and groups, and an eventful minute
// in so many.
const (
	siegeAddresses = 4
	siegeGroups    = 24
	siegeWindow    = 32
	siegePace      = 6
	siegeAttempts  = 12
)

// siegeTime is how long it takes, by the clock of the bubble.
var siegeTime = time.Duration(testenv.Brief(30, 75)) * time.Hour

// siege is what a lane lives through for days: addresses that are down for
// minutes or hours, messages that fail several times before they arrive and some
// that fail for good, operators that redrive, skip and purge messages and pause the
// route or an address, restarts and crashes.
type siege struct {
	source *memSource
	state  *memState

	mu       sync.Mutex
	random   *rand.Rand
	down     map[string]time.Time // until when, by address
	failures map[string]int       // to come, by message; negative: for good
	charged  map[string]int       // failures so far
	redriven map[string]bool      // operators' orders may come late
	seen     map[string]bool
	last     map[string]int64 // position, by group
	twice    int
	problems []string
	dropped  map[string]bool // skipped or purged by operators
	crashes  int
	starts   int
	outages  int

	siegeWatch

	front  *front
	store  *mortal
	router *Router
	stop   func() error
}

func newSiege(seed uint64) *siege {
	s := &siege{source: &memSource{}, state: newMemState(), random: rand.New(rand.NewPCG(seed, 75)),
		down: map[string]time.Time{}, failures: map[string]int{}, charged: map[string]int{}, redriven: map[string]bool{},
		seen: map[string]bool{}, last: map[string]int64{}, dropped: map[string]bool{}}
	s.state.writing = s.checkParked
	s.siegeWatch = newSiegeWatch(s)
	return s
}

func (s *siege) complain(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// checkParked sees every settlement: nobody may be charged for an outage.
func (s *siege) checkParked(st adapters.Settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range st.Park {
		if p.Attempts > s.charged[p.ID] {
			s.complain("%s is parked (%s) with %d attempts, but failed %d times", p.ID, p.Status, p.Attempts, s.charged[p.ID])
		}
		if p.Status == adapters.ParkedDead && s.failures[p.ID] >= 0 {
			s.complain("%s is dead, although it would have been delivered in the end", p.ID)
		}
	}
}

// write commits messages. One of three fails up to ten times, one of a hundred
// for good.
func (s *siege) write() {
	for range 1 + s.random.IntN(8) {
		g := s.random.IntN(siegeGroups)
		row := &adapters.Row{ID: fmt.Sprint("m", len(s.source.rows)), Type: "t", Payload: []byte(`{}`), CreatedAt: time.Now(),
			Group: fmt.Sprint("g", g), Headers: map[string]string{"address": fmt.Sprint("a", g%siegeAddresses)}}
		s.mu.Lock()
		switch dice := s.random.IntN(100); {
		case dice == 0:
			s.failures[row.ID] = -1
		case dice < 34:
			s.failures[row.ID] = 1 + s.random.IntN(10)
		}
		s.mu.Unlock()
		s.source.add(row)
	}
}

// front is one instance's way to the addresses.
type front struct {
	*siege
	cut atomic.Bool // the instance is dead
}

func (f *front) Ordering() adapters.Ordering { return templated }
func (f *front) Close() error                { return nil }
func (f *front) Address(msg *message.Message) (string, error) {
	return msg.Metadata["address"], nil
}

// Deliver implements adapters.Destination.
func (f *front) Deliver(_ context.Context, address string, batch []*message.Message) []error {
	time.Sleep(20 * time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := make([]error, len(batch))
	blocked := map[string]bool{}
	for i, msg := range batch {
		group := msg.Metadata[outbox.MetaGroup]
		switch left := f.failures[msg.UUID]; {
		case f.cut.Load() || time.Now().Before(f.down[address]):
			errs[i] = outbox.Unavailable(errors.New("nobody answers"), 0)
		case blocked[group]:
			errs[i] = outbox.Released(errors.New("an earlier message of the group failed"))
		case left < 0:
			f.charged[msg.UUID]++
			errs[i] = outbox.Permanent(errors.New("refused"))
		case left > 0:
			f.failures[msg.UUID]--
			f.charged[msg.UUID]++
			errs[i] = outbox.Transient(errors.New("not now"), 0)
		default:
			f.arrive(msg, group)
			continue
		}
		blocked[group] = true
	}
	return errs
}

// arrive notes a delivery. Call with the mutex held.
func (s *siege) arrive(msg *message.Message, group string) {
	if s.seen[msg.UUID] {
		s.twice++
		return
	}
	s.seen[msg.UUID] = true
	position, _ := strconv.ParseInt(msg.Metadata[outbox.MetaPosition], 10, 64)
	if s.redriven[msg.UUID] {
		return
	}
	if position < s.last[group] {
		s.complain("%s (position %d) arrived after position %d of its group %s", msg.UUID, position, s.last[group], group)
	}
	s.last[group] = max(s.last[group], position)
}

// leisurely is a state store that takes its time to say who is there. Nobody else
// is, and looking every second would be most of the simulation's work.
type leisurely struct{ *mortal }

func (l leisurely) Instances(ctx context.Context) ([]adapters.Instance, error) {
	time.Sleep(20 * time.Second)
	return l.mortal.Instances(ctx)
}

// start starts an instance.
func (s *siege) start() error {
	s.front, s.store = &front{siege: s}, &mortal{memState: s.state}
	route := Route{
		Name: "orders", Source: s.source, State: leisurely{s.store}, Destination: s.front, Window: siegeWindow, Attempts: siegeAttempts,
		Middleware: []message.HandlerMiddleware{
			middleware.Poison{}.Middleware,
			middleware.Retry{Attempts: siegeAttempts, Base: 10 * time.Second, Max: 2 * time.Hour}.Middleware,
		},
		Poll: Poll{Min: time.Second, Max: time.Minute},
	}
	s.starts++
	if s.starts%2 == 0 { // chains run after deliveries in every second instance, around them in the others
		route.DeliverFirst = true
	} else {
		route.Middleware = append(route.Middleware, middleware.Timeout{}.Middleware)
	}
	rt, err := New(Config{Logger: slog.New(slog.DiscardHandler), Lease: 4 * time.Minute}, []Route{route})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	s.router, s.begun = rt, time.Now()
	s.stop = func() error {
		cancel()
		return <-done
	}
	return nil
}

// event is something that happens to the instance or around it.
func (s *siege) event() error {
	switch dice := s.random.IntN(1000); {
	case dice < 600:
		s.write()
	case dice < 640: // an address is down, mostly for minutes, sometimes for hours
		d := time.Duration(1+s.random.IntN(20)) * time.Minute
		if s.random.IntN(4) == 0 {
			d *= 20
		}
		s.mu.Lock()
		s.down[fmt.Sprint("a", s.random.IntN(siegeAddresses))] = time.Now().Add(d)
		s.outages++
		s.mu.Unlock()
	case dice < 650:
		s.redrive()
	case dice < 700:
		return s.operate()
	case dice < 705:
		if err := s.stop(); err != nil {
			return err
		}
		return s.start()
	case dice < 710:
		s.front.cut.Store(true)
		s.store.dead.Store(true)
		s.state.evict()
		s.crashes++
		_ = s.stop() // an error only if there was something to settle
		return s.start()
	}
	return nil
}

// redrive is an operator who has mended what was refused.
func (s *siege) redrive() {
	parked, _ := s.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
	s.mu.Lock()
	for _, p := range parked {
		if p.Status == adapters.ParkedDead {
			delete(s.failures, p.ID)
			s.redriven[p.ID], s.charged[p.ID] = true, 0
		}
	}
	s.mu.Unlock()
	if s.state.redrive() > 0 {
		s.commanded = time.Now()
	}
}

// over tells whether everything has arrived and nothing is parked.
func (s *siege) over() bool {
	parked, _ := s.state.ListParked(context.Background(), adapters.ParkedFilter{}, 1<<40)
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := len(s.seen)
	for id := range s.dropped {
		if !s.seen[id] { // its attempt was under way
			ended++
		}
	}
	return len(parked) == 0 && ended == len(s.source.rows)
}

func (s *siege) all() error {
	if err := s.start(); err != nil {
		return err
	}
	for end := time.Now().Add(siegeTime); time.Now().Before(end); time.Sleep(siegePace * time.Minute) {
		if err := s.event(); err != nil {
			return err
		}
		if err := s.resume(time.Now()); err != nil {
			return err
		}
		s.observe()
	}
	if err := s.resume(time.Now().Add(siegeTime)); err != nil {
		return err
	}
	for end := time.Now().Add(siegeTime); !s.over() && time.Now().Before(end); time.Sleep(10 * time.Minute) {
		s.observe()
		s.redrive()
	}
	return s.stop()
}

// TestG1_G2_G10_G13_DaysOfRetries lets lanes live through three days of trouble, briefly
// through 30 hours of it, in the time of a bubble.
func TestG1_G2_G10_G13_DaysOfRetries(t *testing.T) {
	t.Parallel()
	lives := uint64(1)
	if os.Getenv("OUTRIDER_SOAK") != "" {
		lives = 40
	}
	first := uint64(testenv.Brief(2, 1)) // the second one has crashes early
	for seed := first; seed < first+lives; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := newSiege(seed)
			synctest.Test(t, func(*testing.T) {
				if err := s.all(); err != nil {
					t.Error(err)
				}
			})
			rows := len(s.source.rows)
			t.Logf("%v with %d outages and %d crashes: %d messages, not arrived %d, dropped %d, redriven %d, duplicates %d, problems %d",
				siegeTime, s.outages, s.crashes, rows, rows-len(s.seen), len(s.dropped), len(s.redriven), s.twice, len(s.problems))
			for _, p := range s.problems[:min(len(s.problems), 8)] {
				t.Error(p)
			}
			if !s.over() || s.twice > s.crashes*(siegeWindow+siegeWindow/2)*adapters.Slots {
				t.Errorf("%d of %d messages arrived, %d came twice after %d crashes; still parked: %v",
					len(s.seen), rows, s.twice, s.crashes, len(s.state.parked))
			}
		})
	}
}
