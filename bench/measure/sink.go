package measure

import (
	"context"
	"time"
)

// Job names the database from which a relay reads, and the place to which it
// delivers.
type Job struct {
	Create   bool     `json:"create"` // only make and fill the peer's tables
	Scenario string   `json:"scenario"`
	Peer     string   `json:"peer"`
	Postgres string   `json:"postgres"` // URL of the peer's database
	Brokers  []string `json:"brokers"`
	Topic    string   `json:"topic"`   // to Kafka
	URL      string   `json:"url"`     // to an HTTP receiver
	Profile  string   `json:"profile"` // file for a CPU profile; empty: none
}

// WatchInterval is the interval between two calls of [Receiver.Received]. For
// topics it is the error of a run's time. It costs the broker little.
const WatchInterval = 25 * time.Millisecond

// Sink is a kind of destination.
type Sink interface {
	// Open makes an empty one, for one run.
	Open(ctx context.Context, s *Servers) (Receiver, error)
}

// Receiver is the destination of one run, as the harness sees it.
type Receiver interface {
	// Describe writes the destination into the job.
	Describe(j *Job)

	// Received returns how many messages have come, and when the last of them
	// did, as precisely as is known.
	Received(ctx context.Context) (n int, last time.Time, err error)

	// Examine gives all arrived messages to the checker. It is called when no more
	// can come.
	Examine(ctx context.Context, c *Checker) error

	// Close removes it.
	Close() error
}

// Topic is a sink: a new topic for each run, read after the run.
type Topic struct{}

// topicReceiver is the topic of a run.
type topicReceiver struct {
	servers *Servers
	name    string
	remove  func() error
}

// Open implements [Sink].
func (Topic) Open(ctx context.Context, s *Servers) (Receiver, error) {
	name, remove, err := s.createTopic(ctx)
	if err != nil {
		return nil, err
	}
	return &topicReceiver{s, name, remove}, nil
}

func (t *topicReceiver) Describe(j *Job) { j.Brokers, j.Topic = t.servers.brokers, t.name }

// Received asks for the end offsets, which have no times.
func (t *topicReceiver) Received(ctx context.Context) (int, time.Time, error) {
	_, n, err := t.servers.EndOffsets(ctx, t.name)
	return n, time.Now(), err
}

func (t *topicReceiver) Examine(ctx context.Context, c *Checker) error {
	return t.servers.consume(ctx, t.name, c)
}

func (t *topicReceiver) Close() error { return t.remove() }
