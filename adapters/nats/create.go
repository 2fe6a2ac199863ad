package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outriderhq/outrider/adapters"
)

var _ adapters.TopicCreator = (*Destination)(nil)

// duplicateWindow is that of a stream that is created; it is the servers' default, too.
const duplicateWindow = 2 * time.Minute

// CreateTopic implements [adapters.TopicCreator]: it has a stream cover a subject. [Config.Stream] gets the subject if it exists;
// otherwise a stream is created, with files, atomic batches and a duplicate window of two minutes.
func (d *Destination) CreateTopic(ctx context.Context, t adapters.NewTopic) (bool, error) {
	if err := d.subjects.Produces(t.Name); err != nil {
		return false, fmt.Errorf("nats: %w", err)
	}
	if t.Partitions > 0 {
		return false, errors.New("nats: a stream has no partitions: leave the number out")
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	js, _, err := d.link.get()
	if err != nil {
		return false, err
	}
	found, err := covering(ctx, js, t.Name)
	if err != nil {
		return false, d.notCreated(t.Name, err)
	}
	if found != nil {
		return false, nil
	}
	name := d.cfg.Stream
	if name == "" {
		name = strings.NewReplacer(".", "_", "/", "_", `\`, "_").Replace(t.Name)
	}
	s, err := js.Stream(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		s = nil
	case err != nil:
		return false, d.notCreated(t.Name, err)
	case d.cfg.Stream == "":
		return false, fmt.Errorf("nats: stream %s exists and does not cover subject %q: name it in the destination (stream: %s) to add the subject", name, t.Name, name)
	}
	if t.DryRun {
		return true, nil
	}
	if s != nil {
		cfg := s.CachedInfo().Config
		cfg.Subjects = append(cfg.Subjects, t.Name)
		_, err = js.UpdateStream(ctx, cfg)
	} else {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{t.Name}, Storage: jetstream.FileStorage,
			Replicas: max(t.Replicas, 1), AllowAtomicPublish: true, Duplicates: duplicateWindow})
	}
	if err != nil {
		return false, d.notCreated(t.Name, err)
	}
	d.streams.forget(t.Name)
	return true, nil
}

// notCreated says why there is no stream for a subject.
func (d *Destination) notCreated(subject string, err error) error {
	return fmt.Errorf("nats: no stream could be made to cover subject %q: %w%s", subject, err, d.link.denial(subject))
}
