package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// fencedProducer delivers for one session of a lane when the destination is
// exclusive: a client with the lane's transactional id, and each wave a
// transaction of its own.
//
// The broker accepts only the producer that initialised the id last.
// An owner that freezes right before it initialises would, when it wakes up, put
// itself above the next owner. So a fenced producer checks after every initialisation
// whether the lane is still its own, and never initialises again once it is
// not: the next owner took the lane after that answer, and so initialises later.
//
// franz-go initialises again by itself to recover from errors, but then tells
// the broker which id and epoch it had, and the broker refuses if they are not
// the last ones. An error that cannot be recovered ends the client.
type fencedProducer struct {
	*Destination
	id    string
	older string // the id that former builds give the lane, until it was initialised
	owned adapters.Owned
	turn  chan struct{} // holds a value while a delivery has the client

	// Of the delivery that has the turn.
	client *client // nil: none, or spent
	lost   bool    // the lane is another's

	closing sync.Once
	closed  chan struct{}
}

var _ adapters.Fencer = (*Destination)(nil)

// Fence implements [adapters.Fencer]. Without [Config.Exclusive] it returns nil.
func (d *Destination) Fence(lane string, owned adapters.Owned) adapters.Destination {
	if !d.cfg.Exclusive {
		return nil
	}
	p := &fencedProducer{Destination: d, id: d.transactionalID(lane), older: d.olderID(lane), owned: owned,
		turn: make(chan struct{}, 1), closed: make(chan struct{})}
	if d.cfg.Once {
		return onceProducer{p}
	}
	return p
}

// transactionalID is the id of a lane ("orders/07"). The slash ends what is
// configured, which has none: so "shop" with route "eu-orders" and "shop-eu" with
// route "orders" have different ids. The hyphen before it keeps what was granted on
// ids that begin with that.
func (d *Destination) transactionalID(lane string) string {
	return d.cfg.TransactionalID + "-/" + lane
}

// olderID is the transactionalID of versions in which it was ambiguous. An owner of a former
// version may still be in flight with it.
func (d *Destination) olderID(lane string) string {
	return d.cfg.TransactionalID + "-" + strings.ReplaceAll(lane, "/", "-")
}

// Deliver implements [adapters.Destination]. Deliveries of one lane to different
// topics go one after the other: a producer has one transaction at a time.
func (p *fencedProducer) Deliver(ctx context.Context, topic string, batch []*message.Message) []error {
	if len(batch) == 0 {
		return nil
	}
	return p.deliver(ctx, p, topic, batch)
}

// Close closes the fenced producer's connections, and not the destination.
func (p *fencedProducer) Close() error {
	p.closing.Do(func() {
		close(p.closed)
		p.turn <- struct{}{}
		p.drop()
		<-p.turn
	})
	return nil
}

var (
	errSeatTaken = errors.New("kafka: records of the same lane for another topic were in flight all the time")
	errLaneLost  = outbox.Released(errors.New("kafka: another instance has the lane now"))
)

// get returns the client that has the lane's id, made and initialised if there
// is none.
func (p *fencedProducer) get(ctx context.Context) (*client, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, outbox.Released(errSeatTaken) // cancelled, or too late
	}
	err := p.ensure(ctx)
	if err == nil {
		return p.client, nil
	}
	<-p.turn
	if errors.Is(ctx.Err(), context.Canceled) {
		err = outbox.Released(err) // called off, whatever it says
	}
	return nil, err
}

// put gives the client back.
func (p *fencedProducer) put(c *client) {
	if c.spent {
		p.client = nil
	}
	<-p.turn
}

// ensure makes sure that there is a client, and that the id is its own.
func (p *fencedProducer) ensure(ctx context.Context) error {
	select {
	case <-p.closed:
		return outbox.Released(errClosed)
	default:
	}
	if p.client != nil {
		return nil
	}
	if err := p.confirm(ctx); err != nil { // not to disturb an owner that is not us
		return err
	}
	if err := p.fenceOlder(ctx); err != nil {
		return err
	}
	c, err := p.openFor(p.id)
	if err != nil {
		return outbox.Unavailable(err, 0)
	}
	p.client = c
	if err = c.initialise(ctx); err != nil {
		err = p.notInitialised(p.id, c.watch.explain(err))
	} else {
		err = p.confirm(ctx)
	}
	if err != nil {
		p.drop()
	}
	return err
}

// initialise gets the client's producer id.
func (c *client) initialise(ctx context.Context) error {
	return c.guarded(ctx, func(ctx context.Context) error {
		_, _, err := c.ProducerID(ctx)
		return err
	})
}

// fenceOlder shuts out an owner of a former version, which has another id: once, as
// the fenced producer's own id is initialised before the first delivery.
func (p *fencedProducer) fenceOlder(ctx context.Context) error {
	if p.older == "" {
		return nil
	}
	c, err := p.openFor(p.older)
	if err != nil {
		return outbox.Unavailable(err, 0)
	}
	defer c.Close()
	if err := c.initialise(ctx); err != nil {
		return p.notInitialised(p.older, c.watch.explain(err))
	}
	p.older = ""
	return nil
}

// openFor makes a client with a transactional id, which is not initialised yet.
// A transaction lasts no longer than the delivery that it is of.
func (d *Destination) openFor(id string) (*client, error) {
	c, err := open(append(slices.Clip(d.pool.opts),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(d.cfg.Timeout),
		kgo.ConcurrentTransactionsBackoff(concurrentBackoff),
		kgo.RetryBackoffFn(transactionBackoff)))
	if err == nil {
		c.transactional = id
	}
	return c, err
}

// confirm checks that the lane still belongs to this session.
func (p *fencedProducer) confirm(ctx context.Context) error {
	if p.lost {
		return errLaneLost
	}
	ours, err := p.owned(ctx)
	if err != nil {
		return outbox.Released(fmt.Errorf("kafka: lane ownership cannot be confirmed, so nothing is sent: %w", err))
	}
	if !ours {
		p.lost = true
		return errLaneLost
	}
	return nil
}

// drop closes the client. Its transaction in flight is aborted by the next initialisation
// of the id or, without one, by the broker after a while.
func (p *fencedProducer) drop() {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}
