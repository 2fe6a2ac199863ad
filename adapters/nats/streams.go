package nats

import (
	"context"
	"errors"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamsKept   = time.Minute     // how long a stream's settings are believed
	streamsMost   = 10_000          // subjects whose stream is kept
	streamsWithin = 5 * time.Second // how long the servers may take to name the stream
)

// streams are the streams that cover subjects, as far as they are known.
type streams struct {
	mu    sync.Mutex
	known map[string]stream // by subject
}

// stream has what a wave needs of a stream's settings.
type stream struct {
	atomic bool // it takes batches
	until  time.Time
}

// of returns the stream of a subject.
func (s *streams) of(ctx context.Context, d *Destination, js jetstream.JetStream, subject string) (stream, error) {
	s.mu.Lock()
	found, ok := s.known[subject]
	s.mu.Unlock()
	if ok && time.Now().Before(found.until) {
		return found, nil
	}
	info, err := d.find(ctx, js, subject)
	if err != nil {
		return found, err
	}
	found = stream{atomic: info.Config.AllowAtomicPublish, until: time.Now().Add(streamsKept)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= streamsMost {
		s.known = map[string]stream{}
	}
	s.known[subject] = found
	return found, nil
}

// forget has the servers asked again.
func (s *streams) forget(subject string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, subject)
}

// find asks for the stream that covers a subject.
func (d *Destination) find(ctx context.Context, js jetstream.JetStream, subject string) (*jetstream.StreamInfo, error) {
	limited, cancel := context.WithTimeout(ctx, min(streamsWithin, d.cfg.Timeout))
	defer cancel()
	found, err := covering(limited, js, subject)
	switch {
	case err != nil:
		return nil, d.unavailable(subject, err)
	case found == nil:
		return nil, d.unavailable(subject, jetstream.ErrNoStreamResponse)
	}
	return found, nil
}

// covering returns the stream that covers a subject; nil: there is none.
func covering(ctx context.Context, js jetstream.JetStream, subject string) (found *jetstream.StreamInfo, err error) {
	list := js.ListStreams(ctx, jetstream.WithStreamListSubject(subject))
	for info := range list.Info() {
		found = info
	}
	if errors.Is(list.Err(), natsgo.ErrNoResponders) {
		return nil, jetstream.ErrJetStreamNotEnabled
	}
	return found, list.Err()
}
