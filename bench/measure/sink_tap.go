package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Tap is a sink: a new topic for each run, with a consumer that records when each
// record came.
type Tap struct {
	// Fails says that the broker goes away meanwhile: errors of the consumer do not count.
	Fails bool
}

// tapReceiver is the topic of a run with the records that its consumer has read.
type tapReceiver struct {
	topicReceiver
	client *kgo.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	records []*kgo.Record
	times   []time.Time // when the consumer had them
	err     error
}

// Open implements [Sink].
func (Tap) Open(ctx context.Context, s *Servers) (Receiver, error) {
	name, remove, err := s.createTopic(ctx)
	if err != nil {
		return nil, err
	}
	t := &tapReceiver{topicReceiver: topicReceiver{s, name, remove}, done: make(chan struct{})}
	if t.client, err = s.consumer(ctx, name); err != nil {
		return nil, errors.Join(err, remove())
	}
	ctx, t.stop = context.WithCancel(ctx)
	go t.consume(ctx)
	return t, nil
}

// consume takes records until ctx ends or the client fails.
func (t *tapReceiver) consume(ctx context.Context) {
	defer close(t.done)
	for {
		fetches := t.client.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		t.err = errors.Join(t.err, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			t.records, t.times = append(t.records, r), append(t.times, now)
		})
		t.mu.Unlock()
	}
}

func (t *tapReceiver) Received(context.Context) (int, time.Time, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return 0, time.Time{}, fmt.Errorf("read topic %s: %w", t.name, t.err)
	}
	if len(t.times) == 0 {
		return 0, time.Time{}, nil
	}
	return len(t.times), t.times[len(t.times)-1], nil
}

func (t *tapReceiver) Examine(_ context.Context, c *Checker) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range t.records {
		c.note(c.arrived(r.Partition, r.Key, r.Value), t.times[i])
	}
	return nil
}

func (t *tapReceiver) Close() error {
	t.stop()
	<-t.done
	t.client.Close()
	return t.remove()
}
