package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
)

// Options are the options of a demo.
type Options struct {
	For  time.Duration // how long the shop is open; 0: until the context ends
	Rate float64       // orders per second; 0: DefaultRate
	To   string        // URL of the broker that orders go to, and are read back from; empty: receivers by HTTP in this process

	Out    io.Writer    // for the output while the demo runs
	Live   bool         // Out is a terminal: redraw a table in place
	Logger *slog.Logger // of the relay
}

// DefaultRate is the number of orders per second.
const DefaultRate = 200

// finishLimit limits the wait for the last deliveries after the shop closed.
const finishLimit = 30 * time.Second

// demo is a running demo.
type demo struct {
	options   Options
	shop      *shop
	relay     *outrider.Outrider
	broker    *broker            // nil: there are receivers
	reader    *outrider.Outrider // of the broker
	receivers []*receiver
	ledger    *ledger
	trouble   *trouble
	screen    *screen
}

// Run runs the demo until its time is over or ctx ends, waits until everything
// that the shop committed has arrived (30 seconds at most), stops the relay and
// returns the receivers' tally, or an error if there is none.
func Run(ctx context.Context, o Options) (tally Tally, err error) {
	if o.Rate == 0 {
		o.Rate = DefaultRate
	}
	dir, err := os.MkdirTemp("", "outrider-demo-")
	if err != nil {
		return Tally{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{options: o, ledger: newLedger()}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.build(ctx, filepath.Join(dir, "shop.db")); err != nil {
		return Tally{}, err
	}
	return d.run(ctx)
}

// build makes all parts and starts none.
func (d *demo) build(ctx context.Context, path string) error {
	destination := d.destination
	if d.options.To == "" {
		if err := d.openReceivers(ctx); err != nil {
			return err
		}
	} else {
		var err error
		if d.broker, err = newBroker(d.options.To); err != nil {
			return err
		}
		destination = d.broker.destination
	}
	cfg, err := outrider.ParseConfig("demo.yaml", []byte(configText(path, "127.0.0.1:0", destination, d.options.Rate)))
	if err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil {
		return err
	}
	if d.broker != nil {
		if err := d.broker.create(ctx, cfg, d.options.Logger); err != nil {
			return err
		}
		if d.reader, err = d.broker.reader(ctx, path+"-reader", d.ledger, d.options.Logger); err != nil {
			return err
		}
	}
	if d.shop, err = openShop(ctx, path); err != nil {
		return err
	}
	if d.relay, err = outrider.New(cfg, outrider.WithLogger(d.options.Logger), outrider.WithInstance("demo")); err != nil {
		return err
	}
	d.trouble = newTrouble(d.options.For, d.receivers)
	d.screen = newScreen(d.options.Out, d.options.Live)
	if d.broker != nil {
		d.trouble.say("you may stop the broker, and start it again")
		d.screen.to = d.broker.name + "*, at the broker"
	}
	return nil
}

// openReceivers opens the receivers of all regions.
func (d *demo) openReceivers(ctx context.Context) error {
	for _, g := range regions {
		r := newReceiver(g.name, d.ledger)
		if err := r.open(ctx); err != nil {
			return err
		}
		d.receivers = append(d.receivers, r)
	}
	return nil
}

// destination is the destination of a region that has a receiver.
func (d *demo) destination(region string) string {
	addresses := map[string]string{}
	for _, r := range d.receivers {
		addresses[r.region] = r.address
	}
	return overHTTP(addresses)(region)
}

// run opens the shop, closes it, and waits for the rest.
func (d *demo) run(ctx context.Context) (Tally, error) {
	background := context.WithoutCancel(ctx)
	relay := start(background, d.relay.Run)
	defer func() { _ = relay.stop() }() // its error has been reported by then
	select {
	case <-d.relay.Ready():
	case <-relay.done:
		return Tally{}, relay.failure("the relay did not start")
	case <-ctx.Done():
		return Tally{}, ctx.Err()
	}
	if d.reader != nil {
		reader := start(background, d.reader.Run)
		defer func() { _ = reader.stop() }() // what it did not read is missing in the tally
	}
	d.screen.introduce(d.options.For, d.relay.AdminAddress())
	display := start(background, d.display)
	defer func() { _ = display.stop() }() // it cannot fail

	if err := d.trade(ctx, relay); err != nil {
		return Tally{}, err
	}
	if err := d.finish(background, relay); err != nil {
		return Tally{}, err
	}
	if err := display.stop(); err != nil {
		return Tally{}, err
	}
	committed, err := d.shop.committed(background)
	if err != nil {
		return Tally{}, err
	}
	tally := d.ledger.tally(committed)
	d.screen.conclude(tally, d.shop.rolledBack.Load())
	return tally, nil
}

// trade keeps the shop open until its time is over, ctx ends or the relay does.
func (d *demo) trade(ctx context.Context, relay *task) error {
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	if d.options.For > 0 {
		open, cancel = context.WithTimeout(ctx, d.options.For)
		defer cancel()
	}
	shop := start(open, func(ctx context.Context) error { return d.shop.trade(ctx, d.options.Rate) })
	trouble := start(open, d.trouble.run)
	var failed error
	select {
	case <-relay.done:
		failed = relay.failure("the relay stopped")
	case <-shop.done:
	}
	return errors.Join(failed, shop.stop(), trouble.stop())
}

// finish waits until all orders have arrived, at most for [finishLimit], and stops
// the relay. The tally shows missing orders.
func (d *demo) finish(ctx context.Context, relay *task) error {
	if err := d.trouble.heal(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, finishLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for d.ledger.delivered() < d.shop.sold() {
		select {
		case <-tick.C:
			continue
		case <-relay.done:
			return relay.failure("the relay stopped")
		case <-limited.Done():
		}
		break
	}
	return relay.stop()
}

// close closes the parts that build has made.
func (d *demo) close() error {
	var errs []error
	for _, r := range d.receivers {
		errs = append(errs, r.close())
	}
	if d.broker != nil {
		errs = append(errs, d.broker.close())
	}
	if d.shop != nil {
		errs = append(errs, d.shop.close())
	}
	return errors.Join(errs...)
}

// task is a function in a goroutine of its own.
type task struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // after done
}

func start(ctx context.Context, f func(context.Context) error) *task {
	ctx, cancel := context.WithCancel(ctx)
	t := &task{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.err = f(ctx)
	}()
	return t
}

// stop cancels the function and returns its error.
func (t *task) stop() error {
	t.cancel()
	<-t.done
	return t.err
}

// failure is the error of a task that should not have ended.
func (t *task) failure(what string) error {
	if err := t.stop(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return errors.New(what)
}
