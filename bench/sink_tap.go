package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// tap is a sink: a new topic for each run, with a consumer that notes when each
// record came.
type tap struct{}

// tapReceiver is the topic of a run and what its consumer has taken.
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

func (tap) open(ctx context.Context, s *servers) (receiver, error) {
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

func (t *tapReceiver) received(context.Context) (int, time.Time, error) {
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

func (t *tapReceiver) examine(_ context.Context, c *checker) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range t.records {
		c.note(c.arrived(r.Partition, r.Key, r.Value), t.times[i])
	}
	return nil
}

func (t *tapReceiver) close() error {
	t.stop()
	<-t.done
	t.client.Close()
	return t.remove()
}
