package interleave_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

// facts are what has happened in a run.
type facts struct {
	committed []event           // in the order of their inserts
	received  []string          // ids, by the destination
	settled   map[string]int    // how often each id was settled
	epochs    map[string]string // owners by lane and epoch
	holders   map[string]string // who has a row of a queue
	notes     map[string]int    // what scenarios count
	wrong     []string
}

func newFacts() facts {
	return facts{settled: map[string]int{}, epochs: map[string]string{}, notes: map[string]int{}, holders: map[string]string{}}
}

// event is a row that a publisher wrote.
type event struct{ id, group, publisher string }

// note counts something.
func (w *world) note(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[what] += n
}

// noted checks what scenarios have counted, in all.
func (w *world) noted(want int, whats ...string) error {
	got := 0
	for _, what := range whats {
		got += w.notes[what]
	}
	if got != want {
		return fmt.Errorf("%s: got %d, want %d", strings.Join(whats, " and "), got, want)
	}
	return nil
}

// fault notes that something is wrong.
func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// commit notes rows that a publisher has committed.
func (w *world) commit(by string, ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.committed = append(w.committed, event{id, w.groupOf(id), by})
	}
}

// receive is the destination.
func (w *world) receive(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = append(w.received, ids...)
}

// settle notes that rows were settled.
func (w *world) settle(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.settled[id]++
	}
}

// own notes that an instance has acquired lanes.
func (w *world) own(name string, lanes []adapters.LaneState) {
	for i := range lanes {
		key := fmt.Sprintf("%s/%d epoch %d", lanes[i].Route, lanes[i].Slot, lanes[i].Epoch)
		w.mu.Lock()
		former, taken := w.epochs[key]
		w.epochs[key] = name
		w.mu.Unlock()
		if taken {
			w.fault("%s was acquired by %s and by %s", key, former, name)
		}
	}
}

// check says what is wrong after a run: each committed row was received, those of a group and a publisher for the first time in their order,
// and each was settled once.
func (w *world) check(sc *scenario) error {
	if sc.ends != nil {
		if err := sc.ends(w); err != nil {
			return err
		}
	}
	if sc.drain != nil {
		if err := sc.drain(w); err != nil {
			return fmt.Errorf("what is ready cannot be delivered: %w", err)
		}
	}
	var errs []error
	for _, text := range w.wrong {
		errs = append(errs, errors.New(text))
	}
	if sc.drain == nil {
		return errors.Join(errs...)
	}
	last := map[string]int{}
	for _, e := range w.committed {
		at := slices.Index(w.received, e.id)
		if key := e.group + " of " + e.publisher; at < 0 {
			errs = append(errs, fmt.Errorf("row %s was lost: received %v", e.id, w.received))
		} else if e.group != "" && at < last[key] {
			errs = append(errs, fmt.Errorf("row %s came out of order: received %v", e.id, w.received))
		} else {
			last[key] = at
		}
	}
	for _, id := range w.received {
		if !slices.ContainsFunc(w.committed, func(e event) bool { return e.id == id }) {
			errs = append(errs, fmt.Errorf("row %s was delivered and not committed", id))
		}
	}
	for id, n := range w.settled {
		if n > 1 {
			errs = append(errs, fmt.Errorf("row %s was settled %d times", id, n))
		}
	}
	return errors.Join(errs...)
}
