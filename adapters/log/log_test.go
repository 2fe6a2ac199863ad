package log

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"

	"github.com/outriderhq/outrider/adapters/adaptertest"
)

// lines is a handler that keeps records.
type lines struct {
	mu   sync.Mutex
	got  []adaptertest.Received
	most slog.Level
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= l.most }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *lines) WithGroup(string) slog.Handler                    { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	values := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool { values[a.Key] = a.Value; return true })
	payload, ok := values[AttrPayload].Any().([]byte)
	if !ok {
		payload = []byte(values[AttrPayload].String())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, adaptertest.Received{
		ID: values[AttrID].String(), Type: values[AttrType].String(),
		Position: values[AttrPosition].String(), Lane: values[AttrLane].String(), Payload: payload,
	})
	return nil
}

func (l *lines) received(*testing.T, string) []adaptertest.Received {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]adaptertest.Received(nil), l.got...)
}

func TestLog(t *testing.T) {
	t.Parallel()
	adaptertest.Destination(t, func(*testing.T) adaptertest.Harness {
		l := new(lines)
		return adaptertest.Harness{
			Destination: New(slog.New(l), slog.LevelInfo), Addresses: []string{"log"}, Received: l.received,
		}
	})
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	adaptertest.Destination(t, func(*testing.T) adaptertest.Harness {
		return adaptertest.Harness{Destination: Discard(), Addresses: []string{"discard"}}
	})
}

func TestLevel(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	adaptertest.Destination(t, func(*testing.T) adaptertest.Harness {
		return adaptertest.Harness{Destination: New(logger, slog.LevelInfo), Addresses: []string{"log"}}
	})
	if out.Len() > 0 {
		t.Errorf("lines below the logger's level were written: %s", out.String())
	}
	adaptertest.Destination(t, func(*testing.T) adaptertest.Harness {
		return adaptertest.Harness{Destination: New(logger, slog.LevelError), Addresses: []string{"log"}}
	})
	var line map[string]any
	if err := json.NewDecoder(&out).Decode(&line); err != nil || line["level"] != "ERROR" || line[AttrID] == "" {
		t.Errorf("line %v, %v", line, err)
	}
}
