package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrOutcomeUnknown is the error of [InTx], by errors.Is, when COMMIT failed in a way that does not say whether the
// transaction was committed, for example because the connection broke while the answer was awaited. Look for the data
// before you repeat the work.
var ErrOutcomeUnknown = errors.New("it is not known whether the transaction was committed")

// rollbackTimeout bounds a rollback whose context is over: what it does not reach in time is rolled back by the
// database when the connection is closed.
const rollbackTimeout = 5 * time.Second

// InTx runs fn in a transaction of db, which it commits when fn returns nil. It rolls back when fn returns an error,
// panics or ends its goroutine, and when ctx is over before the commit; the error of fn is returned as it is, by
// errors.Is.
//
// db is a *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn, *sql.DB, *sql.Conn or anything else with such a BeginTx, and tx is what its
// BeginTx returns. At most one opts is passed to BeginTx:
//
//	err := outbox.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
//	    ...
//	    return client.Publish(ctx, tx, event)
//	}, pgx.TxOptions{IsoLevel: pgx.Serializable})
//
// The ctx of fn carries the transaction: [AfterCommit] and [AfterRollback] need it, and [Client.Publish], [Lock] and their
// like take it if their tx is nil. fn must not end tx itself, by SQL neither: InTx returns
// [ErrOutcomeUnknown] where [ClientConfig].Hot has published, and nil where nothing shows it.
//
// InTx inside of fn, with its ctx and the same db, joins the transaction: fn runs in it, and the outer InTx ends it. If
// the inner fn fails, the outer InTx rolls back and returns an error even if its own fn returns nil. With another db
// it is a transaction of its own.
//
// If COMMIT fails and the answer does not say that the transaction was rolled back, the error is [ErrOutcomeUnknown].
// Then no hook runs, neither of AfterCommit nor of AfterRollback: what depends on messages of this transaction is left to
// the relay, which delivers them if they were committed.
func InTx[O, T any](ctx context.Context, db interface {
	BeginTx(ctx context.Context, opts O) (T, error)
}, fn func(ctx context.Context, tx T) error, opts ...O) error {
	if len(opts) > 1 {
		return fmt.Errorf("outbox: InTx takes one set of options at most, not %d", len(opts))
	}
	if outer, tx := joinable[T](ctx, db); outer != nil {
		if len(opts) > 0 {
			return errors.New("outbox: InTx inside of InTx joins its transaction, so it cannot have options of its own: give them to the outer one")
		}
		return outer.join(ctx, func(ctx context.Context) error { return fn(ctx, tx) })
	}
	if err := endable[T](); err != nil {
		return err
	}
	var options O
	for _, o := range opts {
		options = o
	}
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return fmt.Errorf("outbox: begin a transaction: %w", err)
	}
	r := &running{db: db, tx: tx}
	return r.run(ctx, func(ctx context.Context) error { return fn(ctx, tx) })
}

// AfterCommit registers hook to run after the commit of the [InTx] transaction in ctx, before InTx returns. Hooks run in the
// order of registration, with the context that InTx was called with, so they are in no transaction. A hook cannot fail the
// transaction any more: a panic in it goes to the caller of InTx after the other hooks have run. Hooks do not run if the process
// dies after the commit: publish a message for everything that must happen.
//
// Outside of InTx, and after its end, the error is [ErrNoTransaction].
func AfterCommit(ctx context.Context, hook func(ctx context.Context)) error {
	return register(ctx, func(r *running) { r.committed = append(r.committed, hook) })
}

// AfterRollback registers hook to run after a rollback, whatever its cause; otherwise it is like [AfterCommit]. Hooks of
// AfterCommit do not run then.
func AfterRollback(ctx context.Context, hook func(ctx context.Context)) error {
	return register(ctx, func(r *running) { r.rolledBack = append(r.rolledBack, hook) })
}

func register(ctx context.Context, add func(*running)) error {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	if s == nil {
		return fmt.Errorf("outbox: hook: the context carries no transaction of outbox.InTx: %w", ErrNoTransaction)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return fmt.Errorf("outbox: hook: the transaction has ended already: %w", ErrNoTransaction)
	}
	add(s.running)
	return nil
}

// scopeKey is the key of the innermost *scope in the context of fn.
type scopeKey struct{}

// scope is the part of a call in which [AfterCommit] and a nil tx refer to a transaction.
type scope struct {
	*running
	outer *scope
}

// running is a transaction that InTx began.
type running struct {
	db, tx any

	mu                    sync.Mutex
	ended                 bool
	broken                error // why it cannot be committed: a joined function failed
	committed, rolledBack []func(context.Context)
	published             []hotInsert
	endedBySQL            bool // by the function, which may have begun another one
}

// joinable returns the transaction of db that ctx carries, or nil.
func joinable[T any](ctx context.Context, db any) (*running, T) {
	var none T
	if !reflect.TypeOf(db).Comparable() {
		return nil, none
	}
	for s, _ := ctx.Value(scopeKey{}).(*scope); s != nil; s = s.outer {
		tx, ok := s.tx.(T)
		s.mu.Lock()
		ok = ok && s.db == db && !s.ended
		s.mu.Unlock()
		if ok {
			return s.running, tx
		}
	}
	return nil, none
}

// endable returns an error for a type of transaction that InTx could begin and not end.
func endable[T any]() error {
	t := reflect.TypeFor[T]()
	if t.Implements(reflect.TypeFor[pgxTx]()) || t.Implements(reflect.TypeFor[sqlTx]()) {
		return nil
	}
	return fmt.Errorf("outbox: InTx cannot use a %v: it needs Exec, Commit and Rollback as pgx.Tx has them, or ExecContext, Commit and Rollback as *sql.Tx", t)
}

// enter makes the transaction the innermost one of a context.
func (r *running) enter(ctx context.Context) context.Context {
	outer, _ := ctx.Value(scopeKey{}).(*scope)
	return context.WithValue(ctx, scopeKey{}, &scope{r, outer})
}

// join runs a function inside of the transaction, which is not committed if it fails.
func (r *running) join(ctx context.Context, fn func(context.Context) error) error {
	err := errors.New("it panicked, or ended its goroutine")
	defer func() {
		if err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.broken = errors.Join(r.broken, err)
		}
	}()
	err = fn(r.enter(ctx))
	return err
}

// run runs fn and ends the transaction.
func (r *running) run(ctx context.Context, fn func(context.Context) error) error {
	returned := false
	defer func() {
		if !returned { // a panic continues after this, with its stack
			hooks, _ := r.rollback(ctx, nil)
			call(ctx, hooks)
		}
	}()
	err := fn(r.enter(ctx))
	returned = true
	if broken := r.brokenBy(); err == nil && broken != nil {
		err = fmt.Errorf("outbox: rolled back, because an InTx that joined the transaction failed: %w", broken)
	}
	if err == nil {
		r.checkHot(ctx)
	}
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("outbox: rolled back, because the context ended before the commit: %w", context.Cause(ctx))
	}
	var hooks []func(context.Context)
	if err != nil {
		hooks, err = r.rollback(ctx, err)
	} else {
		hooks, err = r.commit(ctx)
	}
	call(ctx, hooks)
	return err
}

func (r *running) brokenBy() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

// commit commits, and returns the hooks that are due.
func (r *running) commit(ctx context.Context) ([]func(context.Context), error) {
	var err error
	switch tx := r.tx.(type) {
	case pgxTx:
		err = tx.Commit(ctx)
	case sqlTx:
		err = tx.Commit()
	}
	committed, rolledBack := r.end()
	r.deliverHot(err == nil && !r.endedBySQL)
	if err == nil && r.endedBySQL {
		err = errEndedBySQL
	}
	switch {
	case err == nil:
		return committed, nil
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil: // database/sql was faster
		return rolledBack, fmt.Errorf("outbox: rolled back, because the context ended before the commit: %w", context.Cause(ctx))
	case endedBefore(err):
		return nil, fmt.Errorf("outbox: commit: the function ended the transaction itself (%w), which is for InTx to do: %w", err, ErrOutcomeUnknown)
	case refusedCommit(err):
		return rolledBack, fmt.Errorf("outbox: commit: the transaction was rolled back: %w", err)
	}
	return nil, fmt.Errorf("outbox: commit: %w; look for the data before you repeat the work: %w", ErrOutcomeUnknown, err)
}

// rollback rolls back because of cause, also when ctx is over, and returns the hooks that are due.
func (r *running) rollback(ctx context.Context, cause error) ([]func(context.Context), error) {
	var err error
	switch tx := r.tx.(type) {
	case pgxTx:
		rolling, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		err = tx.Rollback(rolling)
	case sqlTx:
		err = tx.Rollback()
	}
	_, rolledBack := r.end()
	r.deliverHot(false)
	switch {
	case endedBefore(err) && ctx.Err() == nil:
		return nil, errors.Join(cause, fmt.Errorf("outbox: rollback: the function ended the transaction itself (%w), which is for InTx to do: %w", err, ErrOutcomeUnknown))
	case err != nil && !endedBefore(err):
		// COMMIT was not sent, so the database rolls back when it notices that the connection has gone.
		return rolledBack, errors.Join(cause, fmt.Errorf("outbox: rollback: %w", err))
	}
	return rolledBack, cause
}

// end takes the hooks; from now on none can be registered.
func (r *running) end() (committed, rolledBack []func(context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	return r.committed, r.rolledBack
}

// call calls all hooks in their order, also when some panic.
func call(ctx context.Context, hooks []func(context.Context)) {
	for i, hook := range hooks {
		returned := false
		func() {
			defer func() {
				if !returned {
					call(ctx, hooks[i+1:])
				}
			}()
			hook(ctx)
			returned = true
		}()
	}
}

var errEndedBySQL = errors.New("by a statement such as ROLLBACK, COMMIT or PREPARE TRANSACTION")

// endedBefore reports whether a transaction could not be ended because it had ended.
func endedBefore(err error) bool {
	return errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, sql.ErrTxDone) || errors.Is(err, errEndedBySQL)
}
