package redis

import (
	"cmp"
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/adapters/internal/broker"
)

// Deliver implements [adapters.Destination]. It returns within [Servers.Timeout], and at once when ctx is done: what was in flight
// has then an unknown outcome.
func (d *Destination) Deliver(ctx context.Context, stream string, batch []*message.Message) []error {
	if len(batch) == 0 {
		return nil
	}
	w := &wave{d: d, stream: stream, batch: batch, sent: make([]int, 0, len(batch))}
	timed, stop := context.WithTimeout(ctx, d.cfg.Timeout)
	defer stop()
	err := ctx.Err()
	if err == nil {
		err = d.links.use(timed, w.send)
	}
	if err != nil {
		w.failAll(d.cause(ctx, timed, stream, err))
	}
	broker.ChargeHeads(w.errs, func(i int) string { return broker.GroupOf(batch[i]) })
	return w.errs
}

// wave is a batch on its way.
type wave struct {
	d      *Destination
	stream string
	batch  []*message.Message
	cmds   []redis.Cmder
	sent   []int   // the message of each XADD
	errs   []error // by message; nil: none has one
}

func (w *wave) fail(i int, err error) {
	if w.errs == nil {
		w.errs = make([]error, len(w.batch))
	}
	w.errs[i] = err
}

// failAll gives every message that has no error yet the same one.
func (w *wave) failAll(err error) {
	for i := range w.batch {
		if w.errs == nil || w.errs[i] == nil {
			w.fail(i, err)
		}
	}
}

// send stores the messages in one transaction. An error is that of all messages that have none of their own, and closes the link.
func (w *wave) send(ctx context.Context, l *link) error {
	node, err := nodeOf(ctx, l.UniversalClient, w.stream)
	if err != nil {
		return err
	}
	unique := w.d.unique(ctx, l, node)
	w.encode(ctx, unique)
	if len(w.sent) == 0 {
		return nil
	}
	if err := w.d.awaitReplicas(ctx, node); err != nil {
		return err
	}
	exec := redis.NewSliceCmd(ctx, "exec")
	w.cmds = append(w.cmds, exec)
	var confirmed *redis.Cmd
	if w.d.cfg.Replicas > 0 {
		confirmed = w.d.wait(ctx)
		w.cmds = append(w.cmds, confirmed)
	}
	p := node.Pipeline()
	_ = p.BatchProcess(ctx, w.cmds...) // only queues
	_, err = p.Exec(ctx)
	if err := w.refusal(exec, err); err != nil {
		return err
	}
	w.results(exec.Val())
	if unique {
		w.d.foundUnique(w.errs)
	}
	if confirmed != nil {
		return w.d.confirmed(confirmed)
	}
	return nil
}

// encode makes the commands of the transaction, without its end. Nothing is sent of a group behind a message that has no form.
func (w *wave) encode(ctx context.Context, unique bool) {
	w.cmds = append(make([]redis.Cmder, 0, len(w.batch)+3), redis.NewStatusCmd(ctx, "multi"))
	var held broker.Groups
	for i, msg := range w.batch {
		group := broker.GroupOf(msg)
		if held.Has(group) {
			w.fail(i, broker.ErrBehind)
			continue
		}
		args, err := w.d.xadd(w.stream, msg, unique)
		if err != nil {
			held.Hold(group)
			w.fail(i, err)
			continue
		}
		w.cmds, w.sent = append(w.cmds, redis.NewStatusCmd(ctx, args...)), append(w.sent, i)
	}
}

// refusal is why nothing was stored, or why it is not known; err is that of the pipeline. A transaction is called off when one of its commands
// is refused as it is queued.
func (w *wave) refusal(exec *redis.SliceCmd, err error) error {
	if exec.Err() == nil && len(exec.Val()) == len(w.sent) {
		return nil // executed
	}
	err = cmp.Or(exec.Err(), err, errNoAnswer) // of a connection that could not be opened, commands have no error
	if !isAnswer(err) {
		return err
	}
	for _, cmd := range w.cmds {
		if queued := cmd.Err(); isAnswer(queued) && !redis.HasErrorPrefix(queued, "EXECABORT") {
			return queued // the reason, where err says only that there is one
		}
	}
	return err
}

var errNoAnswer = errors.New("the transaction has no answer")

// results takes the answer to each XADD.
func (w *wave) results(answers []any) {
	for n, i := range w.sent {
		if err, ok := answers[n].(error); ok {
			w.fail(i, refused(w.stream, w.batch[i].UUID, err))
		}
	}
}

// isAnswer reports whether an error is the server's.
func isAnswer(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok && !errors.Is(err, redis.Nil)
}
