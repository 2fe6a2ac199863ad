package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Session shows that an instance lives, by a lock that ends with its process: of a connection, or of a file.
type Session interface {
	// Renew extends the lease and returns the lanes of the instance, as [adapters.StateStore] has it.
	Renew(ctx context.Context, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error)

	// Lost reports whether an error of Renew says that the lock may be lost.
	Lost(err error) bool

	// ID names the session on the server.
	ID() int64

	// Close ends the session and drops the lock, unless it is lost.
	Close(lost bool)
}

// formerSessions bounds how many abandoned sessions are remembered.
const formerSessions = 64

// Join announces the instance: a row with its lease and the lock that others see. A second Join of the same
// instance renews; a store serves one instance.
func (o *Operators) Join(ctx context.Context, instance string, lease time.Duration) error {
	if instance == "" || lease <= 0 {
		return errors.New(o.db.Name + ": join: an instance needs an id and a lease longer than 0")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session != nil && o.instance != instance {
		return fmt.Errorf("%s: join: this store serves instance %q already; open another for %q", o.db.Name, o.instance, instance)
	}
	swept := make(chan error, 1)
	go func() { // on another connection, which is wanted soon and takes its time
		swept <- o.db.Sweep(ctx)
	}()
	joined := o.join(ctx, instance, lease)
	if err := <-swept; err != nil && joined == nil {
		return o.db.Wrap("sweep dead instances", err)
	}
	return joined
}

func (o *Operators) join(ctx context.Context, instance string, lease time.Duration) error {
	if o.session == nil {
		_, err := o.open(ctx, instance, lease)
		return err
	}
	_, err := o.session.Renew(ctx, lease)
	return o.db.Wrap(fmt.Sprintf("join as %q", instance), err)
}

// open begins a session. Each
// former session whose loss the server has not noticed yet (a broken network) would hold the
// lock for hours, also one that we gave up before it had answered; it is ended if it holds the lock.
func (o *Operators) open(ctx context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	session, lanes, err := o.db.Open(ctx, instance, lease, o.former)
	if err != nil {
		if session != nil {
			o.abandon(session)
		}
		return nil, err
	}
	o.session, o.instance, o.former = session, instance, nil
	return lanes, nil
}

// abandon closes a session whose end the server may not know of, and remembers it.
func (o *Operators) abandon(session Session) {
	if id := session.ID(); id != 0 && !slices.Contains(o.former, id) {
		o.former = append(o.former, id)
		o.former = o.former[max(0, len(o.former)-formerSessions):]
	}
	session.Close(true)
}

// Renew extends the lease, in the very session that holds the lock, so that
// its loss is noticed. A lost session is replaced and the lock taken again;
// the lanes that others took meanwhile are not in the answer.
func (o *Operators) Renew(ctx context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.joined(instance); err != nil {
		return nil, err
	}
	lanes, err := o.session.Renew(ctx, lease)
	if err == nil {
		return lanes, nil
	}
	if ctx.Err() != nil || !o.session.Lost(err) {
		return nil, o.db.Wrap(fmt.Sprintf("renew the lease of %q", instance), err)
	}
	o.abandon(o.session)
	if lanes, err = o.open(ctx, instance, lease); err != nil {
		return nil, err // the caller tries again, and says so
	}
	o.db.Log.WarnContext(ctx, "the connection that holds the instance's lock was lost; a new one holds it", "instance", instance)
	return lanes, nil
}

// Leave releases the instance's lanes, deletes its row and drops the lock, in
// this order: an instance that sees the lock free finds the lanes released.
func (o *Operators) Leave(ctx context.Context, instance string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.joined(instance); err != nil {
		return err
	}
	err := o.db.Transact(ctx, func(tx Tx) error {
		_, _, err := o.db.leave(ctx, tx, instance)
		return err
	})
	o.end()
	return o.db.Wrap(fmt.Sprintf("leave as %q (others take its lanes as after a crash)", instance), err)
}

// CloseSession ends the session: without Leave before it, others take the lanes as after a crash.
func (o *Operators) CloseSession() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end()
}

// end ends the session. The caller holds mu.
func (o *Operators) end() {
	if o.session != nil {
		o.session.Close(false)
	}
	o.session, o.instance = nil, ""
}

// joined reports whether the instance is the one that this store serves. The caller holds mu.
func (o *Operators) joined(instance string) error {
	if o.session == nil || o.instance != instance {
		return fmt.Errorf("%s: instance %q has not joined; call Join first", o.db.Name, instance)
	}
	return nil
}

// MayAcquire checks the arguments of Acquire.
func (o *Operators) MayAcquire(instance, route string, slots []int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, slot := range slots {
		if slot < 0 || slot >= adapters.MaxLanes {
			return o.db.Wrap(fmt.Sprintf("acquire route %q", route), fmt.Errorf("slot %d is not in 0..%d", slot, adapters.MaxLanes-1))
		}
	}
	return o.joined(instance)
}

// Announce writes down which routes the instance runs.
func (o *Operators) Announce(ctx context.Context, instance string, routes []adapters.RunningRoute) error {
	o.mu.Lock()
	err := o.joined(instance)
	o.mu.Unlock()
	if err != nil {
		return err
	}
	return o.db.transact(ctx, fmt.Sprintf("announce the routes of %q", instance), func(tx Tx) error {
		_, err := o.db.exec(ctx, tx, "UPDATE outrider_instance SET routes = ?{json} WHERE id = ?", EncodeRoutes(routes), instance)
		return err
	})
}

// OwnedLanes are the lanes of an instance, as Renew returns them.
func OwnedLanes(ctx context.Context, q Querier, instance string) (map[adapters.LaneRef]adapters.LaneMark, error) {
	lanes := make(map[adapters.LaneRef]adapters.LaneMark, adapters.Slots)
	err := Each(ctx, q, `SELECT route, slot, epoch, revision, commands FROM outrider_cursor WHERE owner = ?`, []any{instance}, func(scan func(...any) error) error {
		var ref adapters.LaneRef
		var mark adapters.LaneMark
		err := scan(&ref.Route, &ref.Slot, &mark.Epoch, &mark.Revision, &mark.Commands)
		lanes[ref] = mark
		return err
	})
	return lanes, err
}
