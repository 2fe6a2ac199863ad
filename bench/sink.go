package main

import (
	"context"
	"time"
)

// job is where a relay finds its backlog, and where that goes.
type job struct {
	Scenario string   `json:"scenario"`
	Peer     string   `json:"peer"`
	Postgres string   `json:"postgres"` // URL of the peer's database
	Brokers  []string `json:"brokers"`
	Topic    string   `json:"topic"`   // to Kafka
	URL      string   `json:"url"`     // to an HTTP receiver
	Profile  string   `json:"profile"` // file for a CPU profile; empty: none
}

// watchInterval is how often a receiver is asked what has come. For topics it
// is the error of a run's time, and little enough work for the broker.
const watchInterval = 25 * time.Millisecond

// sink is a kind of place where messages go.
type sink interface {
	// open makes an empty one, for one run.
	open(ctx context.Context, s *servers) (receiver, error)
}

// receiver is where the messages of one run go, as the harness sees it.
type receiver interface {
	// describe puts into the job what the relay must know.
	describe(j *job)

	// received returns how many messages have come, and when the last of them
	// did, as precisely as is known.
	received(ctx context.Context) (n int, last time.Time, err error)

	// examine gives everything that came to the checker. Nothing may come any
	// more.
	examine(ctx context.Context, c *checker) error

	// close removes it.
	close() error
}

// topic is a sink: a new topic for each run, that is read when the run is over.
type topic struct{}

// topicReceiver is the topic of a run.
type topicReceiver struct {
	servers *servers
	name    string
	remove  func() error
}

func (topic) open(ctx context.Context, s *servers) (receiver, error) {
	name, remove, err := s.createTopic(ctx)
	if err != nil {
		return nil, err
	}
	return &topicReceiver{s, name, remove}, nil
}

func (t *topicReceiver) describe(j *job) { j.Brokers, j.Topic = t.servers.brokers, t.name }

// received asks for the end offsets, which tell nothing about times.
func (t *topicReceiver) received(ctx context.Context) (int, time.Time, error) {
	_, n, err := t.servers.endOffsets(ctx, t.name)
	return n, time.Now(), err
}

func (t *topicReceiver) examine(ctx context.Context, c *checker) error {
	return t.servers.consume(ctx, t.name, c)
}

func (t *topicReceiver) close() error { return t.remove() }
