package kafka

import (
	"context"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/outriderhq/outrider/adapters"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// wave is a batch in flight: its records and their results. Waves are
// reused, and so are their slices: a delivery of 2000 messages allocates next to
// nothing of its own.
type wave struct {
	d     *Destination
	topic string
	names []name         // by index in the batch
	made  time.Time      // timestamp of the records: franz-go would ask for the time for each
	dated bool           // a record has that of its message instead
	errs  []error        // nil while nothing failed
	notes adapters.Notes // that transactions keep; nil: none
	held  broker.Groups

	recs    []kgo.Record // by index in the batch
	headers []kgo.RecordHeader
	scratch []format.Header
	pending []int // indices to send

	sent     int64        // records of the current send
	placed   atomic.Int64 // of them: buffered for a partition
	failures atomic.Int64 // of them: failed
	answers  atomic.Int64 // of them: failed or acknowledged
	ready    chan struct{}
	answered chan struct{}
	failed   []failure // written by promises, which run one at a time
	promise  func(*kgo.Record, error)
}

// name is the part of a message that a wave keeps next to its record: the message itself may
// go back to its lane, whose middleware may change it, before the wave has ended.
type name struct{ id, group string }

// failure is a record that was not delivered.
type failure struct {
	rec *kgo.Record
	err error
}

func newWave(d *Destination) *wave {
	w := &wave{d: d, ready: make(chan struct{}, 1), answered: make(chan struct{}, 1)}
	w.promise = w.onAnswer
	return w
}

// reset forgets the batch, so that a waiting wave holds no payloads.
func (w *wave) reset() {
	w.topic, w.errs, w.notes, w.dated = "", nil, nil, false
	w.held.Reset()
	clear(w.names)
	w.names = w.names[:0]
	clear(w.recs)
	clear(w.headers)
	clear(w.failed[:cap(w.failed)])
	w.recs, w.headers, w.failed, w.pending = w.recs[:0], w.headers[:0], w.failed[:0], w.pending[:0]
}

// encode makes the records and refuses the messages that cannot become one.
func (w *wave) encode(topic string, batch []*message.Message) {
	w.topic, w.made = topic, time.Now().Truncate(time.Millisecond) // as franz-go truncates it
	if cap(w.recs) < len(batch) {
		w.recs = make([]kgo.Record, len(batch))
	}
	w.recs = w.recs[:len(batch)]
	for i, msg := range batch {
		group := msg.Metadata[outbox.MetaGroup]
		w.names = append(w.names, name{msg.UUID, group})
		if w.held.Has(group) {
			w.fail(i, broker.ErrBehind)
			continue
		}
		if err := w.record(&w.recs[i], msg, group); err != nil {
			w.fail(i, err)
			w.held.Hold(group)
			continue
		}
		w.pending = append(w.pending, i)
	}
}

// record fills in one record. It shares all bytes with the message.
func (w *wave) record(r *kgo.Record, msg *message.Message, group string) error {
	var err error
	if w.scratch, err = w.d.headers(w.scratch[:0], msg); err != nil {
		return err
	}
	from := len(w.headers)
	for _, h := range w.scratch {
		w.headers = append(w.headers, kgo.RecordHeader{Key: h.Key, Value: bytesOf(h.Value)})
	}
	*r = kgo.Record{
		Topic:     w.topic,
		Key:       bytesOf(group),
		Value:     adapters.PayloadOf(msg),
		Headers:   w.headers[from:len(w.headers):len(w.headers)],
		Timestamp: w.made,
	}
	if w.d.cfg.Format == format.Debezium {
		w.dated = asDebezium(r, msg) || w.dated
	}
	if size := batchSize(r); size > w.d.cfg.MaxMessageBytes {
		return outbox.Permanent(&tooLarge{msg.UUID, w.topic, size, w.d.cfg.MaxMessageBytes})
	}
	return nil
}

// asDebezium completes a record of format debezium: without a payload it has no value, an empty header is not null, and its time is that
// of the event, if the message has one: dated.
func asDebezium(r *kgo.Record, msg *message.Message) (dated bool) {
	if msg.Payload == nil {
		r.Value = nil
	}
	for i := range r.Headers {
		if r.Headers[i].Value == nil {
			r.Headers[i].Value = []byte{}
		}
	}
	at, err := time.Parse(time.RFC3339Nano, msg.Metadata[outbox.MetaOccurredAt])
	if dated = err == nil && at.After(time.UnixMilli(0)); dated { // brokers refuse an earlier one
		r.Timestamp = at
	}
	return dated
}

// bytesOf returns the bytes of a string without copying them; no code writes to
// the keys and headers of a record that is being produced. Empty: nil.
func bytesOf(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s)) //nolint:gosec // G103: read only, and the string lives as long as the message
}

// batchSize returns the size of a record batch that holds nothing but r, as
// franz-go counts it before it knows the broker: 4 bytes more than the broker
// does.
func batchSize(r *kgo.Record) int {
	const overhead = 4 + 61 // length prefix and the header of a record batch
	n := 1 + 1 + 1 +        // attributes and the deltas of the first record
		kbin.VarintLen(int32(len(r.Key))) + len(r.Key) +
		kbin.VarintLen(int32(len(r.Value))) + len(r.Value) +
		kbin.VarintLen(int32(len(r.Headers)))
	for _, h := range r.Headers {
		n += kbin.VarintLen(int32(len(h.Key))) + len(h.Key) +
			kbin.VarintLen(int32(len(h.Value))) + len(h.Value)
	}
	return overhead + kbin.VarintLen(int32(n)) + n
}

// send produces the records of the indices and returns when the outcome of each
// is known. w.failed has those that failed.
func (w *wave) send(ctx context.Context, c *client, indices []int) {
	w.failed = w.failed[:0]
	w.sent = int64(len(indices))
	w.placed.Store(0)
	w.failures.Store(0)
	w.answers.Store(0)
	select {
	case <-w.ready: // left by a record that failed after it was buffered
	default:
	}
	c.watch.wave = w
	for _, i := range indices {
		// The context is not the caller's: records of a batch share the
		// fate of the first one's context. Cancelling closes the client.
		c.Produce(context.Background(), &w.recs[i], w.promise)
	}
	if !w.flush(ctx, c) {
		c.spent = true
		c.Close()
	}
	<-w.answered
}

// flush sends what was produced. It returns false when the client must be
// closed instead, so that nothing more of the wave is sent.
//
// A wave is flushed only when all of it is buffered for its partitions. The
// records of a topic that is new to the client are not: when the metadata
// arrives they are buffered one after the other, and a flush in the middle of
// that sends the first of them, which the others overtake when those are
// rejected. (A flush between the last one and the end of that is worse: it
// misses them all.) So a topic begins with one record, which nothing can
// overtake, and later waves find it known. That franz-go forgets a topic is
// rare; the wave is then called off.
func (w *wave) flush(ctx context.Context, c *client) bool {
	if w.sent == 1 || w.placed.Load() == w.sent && w.failures.Load() == 0 {
		return c.Flush(ctx) == nil
	}
	select {
	case <-w.ready:
		return w.failures.Load() == w.sent
	case <-ctx.Done():
		return false
	}
}

// onPlaced is called for every record that is buffered for a partition.
func (w *wave) onPlaced() {
	w.checkReady(w.placed.Add(1) + w.failures.Load())
}

// onAnswer is the promise of every record.
func (w *wave) onAnswer(r *kgo.Record, err error) {
	if err != nil {
		w.failed = append(w.failed, failure{r, err})
		w.checkReady(w.failures.Add(1) + w.placed.Load())
	}
	if w.answers.Add(1) == w.sent {
		w.answered <- struct{}{}
	}
}

// checkReady signals a waiting flush that every record is buffered or failed.
func (w *wave) checkReady(n int64) {
	if n < w.sent {
		return
	}
	select {
	case w.ready <- struct{}{}:
	default: // it is awake: the record failed after it was buffered
	}
}

func (w *wave) fail(i int, err error) {
	if w.errs == nil {
		w.errs = make([]error, len(w.recs))
	}
	w.errs[i] = err
}

func (w *wave) group(i int) string { return w.names[i].group }
