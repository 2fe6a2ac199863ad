package log

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

func TestStatistics(t *testing.T) {
	t.Parallel()
	adaptertest.Destination(t, func(*testing.T) adaptertest.Harness {
		return adaptertest.Harness{Destination: NewStatistics(slog.New(slog.DiscardHandler), slog.LevelInfo, "stats", 0), Addresses: []string{"statistics"}}
	})
}

// batch are messages of a type.
func batch(typ string, n int) (out []*message.Message) {
	for range n {
		msg := message.NewMessage("id", nil)
		msg.Metadata[outbox.MetaType] = typ
		out = append(out, msg)
	}
	return out
}

// told is a handler that hands lines out one by one.
type told struct {
	slog.Handler
	lines chan slog.Record
}

func (t told) Handle(_ context.Context, r slog.Record) error {
	t.lines <- r
	return nil
}

// Lines sum up what came, one for each interval in which something did, and what is left when the destination is closed.
func TestStatisticsWritesLines(t *testing.T) {
	t.Parallel()
	lines := make(chan slog.Record, 10)
	s := NewStatistics(slog.New(told{slog.NewTextHandler(new(bytes.Buffer), nil), lines}), slog.LevelWarn, "stats", time.Millisecond)
	s.Deliver(t.Context(), "", batch("a", 3))
	r := <-lines
	if got := attrs(r); r.Level != slog.LevelWarn || r.Message != "outbox statistics" || got[AttrName] != "stats" || got[AttrTotal] != "3" || got[AttrSince] != "3" {
		t.Errorf("the line is %v %q %v", r.Level, r.Message, got)
	}
	s.every = time.Hour
	s.Deliver(t.Context(), "", batch("b", 2))
	s.Deliver(t.Context(), "", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := attrs(<-lines); got[AttrTotal] != "5" || got[AttrSince] != "2" || got[AttrTypes] != "map[a:3 b:2]" {
		t.Errorf("the last line has %v", got)
	}
	if err := s.Close(); err != nil || len(lines) > 0 {
		t.Errorf("%d lines although nothing came, %v", len(lines), err)
	}
}

func attrs(r slog.Record) map[string]string {
	out := map[string]string{}
	r.Attrs(func(a slog.Attr) bool { out[a.Key] = a.Value.String(); return true })
	return out
}

// However many event types there are, a line has room for some.
func TestStatisticsBoundsTypes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := NewStatistics(slog.New(slog.NewJSONHandler(&out, nil)), slog.LevelInfo, "stats", time.Hour)
	for i := range maxTypes + 50 {
		s.Deliver(t.Context(), "", batch(strconv.Itoa(i), 1))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var line struct {
		Types map[string]int `json:"types"`
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || len(line.Types) != maxTypes+1 || line.Types[OtherTypes] != 50 {
		t.Errorf("%d types, %d others, %v", len(line.Types), line.Types[OtherTypes], err)
	}
}
