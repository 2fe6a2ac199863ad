package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outriderhq/outrider/adapters"
)

// onceProducer is a fenced producer whose transactions keep a note of the lane: the metadata of an offset that a consumer group of the
// lane's own commits, which has the name of the transactional id and no members. It is the offset of partition 0 of the topic that was
// delivered to, which no program reads from.
type onceProducer struct{ *fencedProducer }

var _ adapters.OnceDestination = onceProducer{}

// DeliverOnce implements [adapters.OnceDestination].
func (p onceProducer) DeliverOnce(ctx context.Context, topic string, batch []*message.Message, notes adapters.Notes) []error {
	if len(batch) == 0 {
		return nil
	}
	w := p.newWave(topic, batch)
	w.notes = notes
	return p.send(ctx, p, w)
}

// recall tells the wave what the notes of its lane say. A client asks once: it learns the outcome of all of its own transactions, or is spent.
func (c *client) recall(ctx context.Context, w *wave) error {
	if c.recalled {
		return nil
	}
	notes, err := c.notes(ctx)
	if err == nil {
		w.notes.Read(notes)
		c.recalled = true
	}
	return err
}

// notes returns the notes of the client's lane by topic.
func (c *client) notes(ctx context.Context) (map[string]string, error) {
	notes := map[string]string{}
	err := c.askCoordinator(ctx, func(ctx context.Context) error {
		offsets, err := kadm.NewClient(c.Client).FetchOffsets(kadm.RequireStable(ctx), c.transactional)
		if err == nil {
			err = offsets.Error()
		}
		offsets.Each(func(o kadm.OffsetResponse) { notes[o.Topic] = o.Metadata })
		return err
	})
	if errors.Is(err, kerr.GroupIDNotFound) { // there are none yet
		err = nil
	}
	return notes, err
}

// note has the transaction replace the note of a topic.
func (c *client) note(ctx context.Context, topic, note string) error {
	id, epoch, err := c.ProducerID(ctx)
	if err != nil {
		return err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = c.transactional, id, epoch, c.transactional
	err = c.askCoordinator(ctx, func(ctx context.Context) error {
		resp, err := add.RequestWith(ctx, c.Client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		return err
	})
	if err != nil {
		return err
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.Group, commit.ProducerID, commit.ProducerEpoch = c.transactional, c.transactional, id, epoch
	of, partition := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	of.Topic, partition.Metadata = topic, &note
	of.Partitions = append(of.Partitions, partition)
	commit.Topics = append(commit.Topics, of)
	return c.askCoordinator(ctx, func(ctx context.Context) error {
		resp, err := commit.RequestWith(ctx, c.Client)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
			}
		}
		return err
	})
}

// tryNotes reads the notes of a lane, and has a transaction keep a large one, which it aborts.
func (c *client) tryNotes(ctx context.Context, topic string) error {
	if _, err := c.notes(ctx); err != nil {
		return err
	}
	if err := c.note(ctx, topic, strings.Repeat("-", adapters.NoteMost)); err != nil {
		return err
	}
	id, epoch, err := c.ProducerID(ctx)
	if err != nil {
		return err
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch = c.transactional, id, epoch
	return c.askCoordinator(ctx, func(ctx context.Context) error {
		resp, err := end.RequestWith(ctx, c.Client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		return err
	})
}

// askCoordinator asks a coordinator of groups or transactions, and again while it is busy with the end of another transaction.
func (c *client) askCoordinator(ctx context.Context, ask func(context.Context) error) error {
	return c.guarded(ctx, func(ctx context.Context) error {
		for fails := 1; ; fails++ {
			err := patiently(ctx, func() error { return ask(ctx) })
			if !errors.Is(err, kerr.ConcurrentTransactions) && !errors.Is(err, kerr.UnstableOffsetCommit) {
				return err
			}
			select {
			case <-time.After(transactionBackoff(fails)):
			case <-ctx.Done():
				return err
			}
		}
	})
}

// notNoted says why the note of a lane could not be read or written.
func notNoted(id, topic string, err error) error {
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return &refusal{fmt.Sprintf("no permission to keep notes in group %q: grant READ on groups that begin with the destination's transactional_id and a hyphen", id), err}
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return &refusal{fmt.Sprintf("no permission to keep notes beside topic %q: grant READ on it", topic), err}
	case errors.Is(err, kerr.OffsetMetadataTooLarge):
		return &refusal{fmt.Sprintf("the brokers keep no notes of %d bytes: set their offset.metadata.max.bytes to that", adapters.NoteMost), err}
	}
	return err
}
