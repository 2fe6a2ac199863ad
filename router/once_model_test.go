package router

import (
	"context"
	"errors"
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// ledgers are the notes that the world keeps with what arrives: by lane and address.
type ledgers map[string]map[string]string

// noted is one instance's connection to a world that keeps notes.
type noted struct{ *link }

func (n noted) Fence(lane string, _ adapters.Owned) adapters.Destination {
	return &notedLane{link: n.link, lane: lane, turn: make(chan struct{}, 1)}
}

// notedLane is what a session delivers through, in transactions of which some are aborted, and the answers of some are lost.
type notedLane struct {
	*link
	lane string

	turn     chan struct{} // not a mutex, which would stop the time
	recalled bool
}

// DeliverOnce implements [adapters.OnceDestination].
func (l *notedLane) DeliverOnce(ctx context.Context, address string, batch []*message.Message, notes adapters.Notes) []error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if !l.recalled {
		l.mu.Lock()
		known := maps.Clone(l.ledgers[l.lane])
		l.mu.Unlock()
		notes.Read(known)
		l.recalled = true
	}
	var pending []int
	var left []*message.Message
	for i, msg := range batch {
		if !notes.Delivered(i) {
			pending, left = append(pending, i), append(left, msg)
		}
	}
	failed, arrivals := l.attempt(ctx, left, &l.cut)
	errs := make([]error, len(batch))
	var sent []int
	for i, err := range failed {
		if errs[pending[i]] = err; err == nil {
			sent = append(sent, pending[i])
		}
	}
	if len(sent) == 0 {
		return errs
	}
	note := notes.Write(sent)
	if l.commit(address, note, arrivals) {
		notes.Committed()
		return errs
	}
	for _, i := range sent {
		errs[i] = outbox.Unavailable(errors.New("no answer to the commit"), 0)
	}
	return errs
}

// commit ends a transaction, and reports whether it is known to be committed.
func (l *notedLane) commit(address, note string, arrivals []arrived) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	dice := l.random.IntN(12)
	l.recalled = dice > 1
	if dice == 0 || l.cut.Load() {
		l.recalled = l.random.IntN(2) == 0 // it is known that it was aborted
		return false
	}
	l.arrivals = append(l.arrivals, arrivals...)
	if l.ledgers[l.lane] == nil {
		l.ledgers[l.lane] = map[string]string{}
	}
	l.ledgers[l.lane][address] = note
	return dice > 1
}
