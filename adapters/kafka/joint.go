package kafka

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Lanes deliver at the same time, each its own batch. Sent one by one those
// would be many small requests, which cost a broker more than the records in
// them. So a topic has one wave under way, and the batches that come meanwhile go
// together in the next one, without waiting for anything else. Batches of different
// lanes have no group in common: order is not touched.
const (
	jointMessages = 8 * maxWaveMessages
	jointBytes    = 4 << 20
)

// delivery is one call of Deliver.
type delivery struct {
	ctx   context.Context
	batch []*message.Message
	bytes int
	errs  []error
	done  chan struct{}
}

// joints are the deliveries that wait, by topic.
type joints struct {
	mu     sync.Mutex
	topics map[string]*joint
}

// joint is a topic to which a wave is under way.
type joint struct{ waiting []*delivery }

// join has the delivery sent with others and returns when it was.
func (d *Destination) join(topic string, x *delivery) []error {
	for _, msg := range x.batch {
		x.bytes += len(msg.Payload)
	}
	d.joints.mu.Lock()
	j := d.joints.topics[topic]
	if j == nil {
		j = &joint{}
		d.joints.topics[topic] = j
		go d.lead(topic, j)
	}
	j.waiting = append(j.waiting, x)
	d.joints.mu.Unlock()
	<-x.done
	return x.errs
}

// lead sends waves until nothing waits for the topic.
func (d *Destination) lead(topic string, j *joint) {
	for {
		d.gather(j)
		together := d.takeJoint(topic, j)
		if together == nil {
			return
		}
		d.sendJoint(topic, together)
	}
}

// gather lets the lanes that are about to deliver do so, as long as one does:
// this goroutine is scheduled right after the first. Nothing is waited for.
func (d *Destination) gather(j *joint) {
	for before := -1; ; runtime.Gosched() {
		d.joints.mu.Lock()
		now := len(j.waiting)
		d.joints.mu.Unlock()
		if now == before {
			return
		}
		before = now
	}
}

// takeJoint takes what waits, as much as goes into a wave.
func (d *Destination) takeJoint(topic string, j *joint) []*delivery {
	d.joints.mu.Lock()
	defer d.joints.mu.Unlock()
	messages, bytes, n := 0, 0, 0
	for _, x := range j.waiting {
		messages += len(x.batch)
		bytes += x.bytes
		if n > 0 && (messages > jointMessages || bytes > jointBytes) {
			break
		}
		n++
	}
	if n == 0 {
		delete(d.joints.topics, topic)
		return nil
	}
	together := j.waiting[:n:n]
	j.waiting = j.waiting[n:]
	return together
}

// sendJoint sends the batches as one wave and gives each its results. The wave
// ends when the first of their contexts does.
func (d *Destination) sendJoint(topic string, together []*delivery) {
	if len(together) == 1 {
		x := together[0]
		x.errs = d.deliver(x.ctx, d.pool, topic, x.batch)
		close(x.done)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stops := make([]func() bool, 0, len(together))
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	messages := 0
	for _, x := range together {
		messages += len(x.batch)
	}
	batch := make([]*message.Message, 0, messages)
	var deadline time.Time
	for _, x := range together {
		batch = append(batch, x.batch...)
		if at, ok := x.ctx.Deadline(); ok && (deadline.IsZero() || at.Before(deadline)) {
			deadline = at
		}
		stops = append(stops, context.AfterFunc(x.ctx, func() {
			if x.ctx.Err() == context.Canceled { // deadlines are applied below, as what they are
				cancel()
			}
		}))
	}
	if !deadline.IsZero() {
		var release context.CancelFunc
		ctx, release = context.WithDeadline(ctx, deadline)
		defer release()
	}
	errs := d.deliver(ctx, d.pool, topic, batch)
	for _, x := range together {
		if errs != nil {
			x.errs, errs = errs[:len(x.batch):len(x.batch)], errs[len(x.batch):]
		}
		close(x.done)
	}
}
