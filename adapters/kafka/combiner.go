package kafka

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/internal/broker"
)

// Lanes deliver at the same time, each its own batch. Sent one by one those
// would be many small requests, which cost a broker more than the records in
// them. So a topic has one wave in flight, and the batches that come meanwhile go
// together in the next one, without waiting for anything else. Batches of different
// lanes have no group in common: order is not touched.
//
// A lane that is called off leaves, and the wave continues for the others: they were
// not called off, and what is in the topic already would be sent again. Records of the lane
// in the wave may still arrive, as after any end of a delivery. They are not
// sent again before that, since the topic's next wave waits for this one.
const (
	combinedMessages = 8 * maxWaveMessages
	combinedBytes    = 4 << 20
)

// delivery is one call of Deliver.
type delivery struct {
	ctx   context.Context
	batch []*message.Message
	bytes int
	with  *company // nil: it waits, or is a wave alone
	errs  []error
	done  chan struct{}
}

// company is the deliveries that are one wave.
type company struct {
	ctx     context.Context // ends when none of them is there any more
	end     context.CancelFunc
	there   int           // guarded by the mutex of combiners
	encoded chan struct{} // closed when their messages are not read any more
}

// leaveMoment is how long a delivery that is called off waits for the wave to end by
// itself, so that its outcome is known: most do.
const leaveMoment = 50 * time.Millisecond

// combiners have the deliveries that wait, by topic.
type combiners struct {
	mu     sync.Mutex
	topics map[string]*combiner
}

// combiner is a topic to which a wave is in flight.
type combiner struct{ waiting []*delivery }

// join has the delivery sent with others and returns when it was.
func (d *Destination) join(topic string, x *delivery) []error {
	for _, msg := range x.batch {
		x.bytes += len(msg.Payload)
	}
	d.combiners.mu.Lock()
	c := d.combiners.topics[topic]
	if c == nil {
		c = &combiner{}
		d.combiners.topics[topic] = c
		go d.combine(topic, c)
	}
	c.waiting = append(c.waiting, x)
	d.combiners.mu.Unlock()
	select {
	case <-x.done:
		return x.errs
	case <-x.ctx.Done():
		return d.leave(topic, x)
	}
}

// leave ends a delivery whose context has ended. The last one that leaves ends the
// wave, which then reports what arrived.
func (d *Destination) leave(topic string, x *delivery) []error {
	d.combiners.mu.Lock()
	if c := d.combiners.topics[topic]; c != nil {
		if i := slices.Index(c.waiting, x); i >= 0 {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			d.combiners.mu.Unlock()
			return x.unknown(topic)
		}
	}
	with, last := x.with, true
	if with != nil {
		with.there--
		if last = with.there == 0; last {
			with.end()
		}
	}
	d.combiners.mu.Unlock()
	if last {
		<-x.done
		return x.known(topic)
	}
	timer := time.NewTimer(leaveMoment)
	defer timer.Stop()
	select {
	case <-x.done:
		return x.known(topic)
	case <-timer.C:
		<-with.encoded
		return x.unknown(topic)
	}
}

// unknown is the outcome of a delivery that has left.
func (d *delivery) unknown(topic string) []error {
	errs := make([]error, len(d.batch))
	for i := range errs {
		errs[i] = ended(d.ctx, topic)
	}
	broker.ChargeHeads(errs, func(i int) string { return broker.GroupOf(d.batch[i]) })
	return errs
}

// known is the outcome of a delivery whose wave has ended, perhaps because all left.
// Messages that have no outcome for that ended for the delivery's own reason.
func (d *delivery) known(topic string) []error {
	if d.with == nil || d.errs == nil {
		return d.errs
	}
	own := d.unknown(topic)
	for i, err := range d.errs {
		if errors.Is(err, context.Canceled) {
			d.errs[i] = own[i]
		}
	}
	return d.errs
}

// combine sends waves until nothing waits for the topic.
func (d *Destination) combine(topic string, c *combiner) {
	for {
		d.gather(c)
		together := d.takeTogether(topic, c)
		if together == nil {
			return
		}
		d.sendTogether(topic, together)
	}
}

// gather lets the lanes that are about to deliver do so, as long as one does:
// this goroutine is scheduled right after the first. Nothing is waited for.
func (d *Destination) gather(c *combiner) {
	for before := -1; ; runtime.Gosched() {
		d.combiners.mu.Lock()
		now := len(c.waiting)
		d.combiners.mu.Unlock()
		if now == before {
			return
		}
		before = now
	}
}

// takeTogether takes what waits, as much as goes into a wave.
func (d *Destination) takeTogether(topic string, c *combiner) []*delivery {
	d.combiners.mu.Lock()
	defer d.combiners.mu.Unlock()
	messages, bytes, n := 0, 0, 0
	for _, x := range c.waiting {
		messages += len(x.batch)
		bytes += x.bytes
		if n > 0 && (messages > combinedMessages || bytes > combinedBytes) {
			break
		}
		n++
	}
	if n == 0 {
		delete(d.combiners.topics, topic)
		return nil
	}
	together := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	if n > 1 {
		with := &company{there: n, encoded: make(chan struct{})}
		with.ctx, with.end = context.WithCancel(context.Background())
		for _, x := range together {
			x.with = with
		}
	}
	return together
}

// sendTogether sends the batches as one wave and gives each its results.
func (d *Destination) sendTogether(topic string, together []*delivery) {
	c := together[0].with
	if c == nil {
		x := together[0]
		x.errs = d.deliver(x.ctx, d.pool, topic, x.batch)
		close(x.done)
		return
	}
	defer c.end() // frees the context
	messages := 0
	for _, x := range together {
		messages += len(x.batch)
	}
	batch := make([]*message.Message, 0, messages)
	for _, x := range together {
		batch = append(batch, x.batch...)
	}
	w := d.newWave(topic, batch)
	close(c.encoded)
	errs := d.send(c.ctx, d.pool, w)
	for _, x := range together {
		if errs != nil {
			x.errs, errs = errs[:len(x.batch):len(x.batch)], errs[len(x.batch):]
		}
		close(x.done)
	}
}
