package log

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// DefaultEvery is the pause between two lines of a [Statistics] where nothing else is configured.
const DefaultEvery = 10 * time.Second

// maxTypes bounds the event types that a [Statistics] counts apart. Those that come later are counted as [OtherTypes].
const maxTypes = 100

// OtherTypes are the event types that have no count of their own.
const OtherTypes = "(other types)"

// Attributes of a line of a [Statistics], next to the message "outbox statistics".
const (
	AttrName      = "destination"
	AttrTotal     = "delivered"  // messages since the start
	AttrSince     = "since_last" // messages since the line before
	AttrPerSecond = "per_second" // of those, in the time since they began
	AttrTypes     = "types"      // messages since the start by event type, at most 101 entries
)

// Statistics is a destination that takes everything, keeps nothing, and logs how many messages it took, by event type. It writes
// a line when something came since the line before, and at most one in each interval.
type Statistics struct {
	logger *slog.Logger
	level  slog.Level
	name   string
	every  time.Duration

	mu     sync.Mutex
	total  int64
	fresh  int64     // since the last line
	begun  time.Time // when the first of these came
	types  map[string]int64
	timer  *time.Timer // for the next line; nil: nothing came since the last one
	closed bool
}

var _ adapters.Destination = (*Statistics)(nil)

// NewStatistics returns a destination that writes to logger at a level (nil: slog.Default()), under its name in the configuration.
// every is the pause between lines; 0: [DefaultEvery].
func NewStatistics(logger *slog.Logger, level slog.Level, name string, every time.Duration) *Statistics {
	if logger == nil {
		logger = slog.Default()
	}
	if every <= 0 {
		every = DefaultEvery
	}
	return &Statistics{logger: logger, level: level, name: name, every: every, types: map[string]int64{}}
}

// Address is "statistics".
func (s *Statistics) Address(*message.Message) (string, error) { return "statistics", nil }

// Deliver implements [adapters.Destination]. Once ctx is done nothing is counted: the batch comes back released.
func (s *Statistics) Deliver(ctx context.Context, _ string, batch []*message.Message) []error {
	if err := ctx.Err(); err != nil {
		errs := make([]error, len(batch))
		for i := range errs {
			errs[i] = outbox.Released(err)
		}
		return errs
	}
	if len(batch) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh == 0 {
		s.begun = time.Now()
	}
	s.total += int64(len(batch))
	s.fresh += int64(len(batch))
	for _, msg := range batch {
		typ := msg.Metadata[outbox.MetaType]
		if _, known := s.types[typ]; !known && len(s.types) >= maxTypes {
			typ = OtherTypes
		}
		s.types[typ]++
	}
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(s.every, s.tick)
	}
	return nil
}

// tick writes a line when its time has come.
func (s *Statistics) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	s.writeLocked()
}

// writeLocked writes a line if something came since the last one.
func (s *Statistics) writeLocked() {
	if s.fresh == 0 {
		return
	}
	perSecond := float64(s.fresh) / max(time.Since(s.begun).Seconds(), 0.001)
	s.logger.LogAttrs(context.Background(), s.level, "outbox statistics", slog.String(AttrName, s.name), slog.Int64(AttrTotal, s.total),
		slog.Int64(AttrSince, s.fresh), slog.Float64(AttrPerSecond, float64(int64(perSecond*10))/10), slog.Any(AttrTypes, maps.Clone(s.types)))
	s.fresh = 0
}

// Ordering declares waves of up to 1000 messages.
func (s *Statistics) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: maxMessages, Static: true, Whole: true}
}

// Close writes what is not written yet.
func (s *Statistics) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.writeLocked()
	return nil
}
