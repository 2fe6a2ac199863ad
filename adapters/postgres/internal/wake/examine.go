package wake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Trigger is the name of the trigger of every table, and of its function.
const Trigger = "outrider_wake"

// ThereSQL asks for an enabled trigger of the table $1.
const ThereSQL = `SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass($1) AND tgname = '` + Trigger + `' AND tgenabled <> 'D')`

// hearingLimit is how long an examination waits for a notification of its own.
const hearingLimit = time.Second

// Examine looks, where something is to wake a source, whether it does, and what would.
func (w *Waker) Examine(ctx context.Context) []adapters.Finding {
	switch w.mode {
	case Notify:
		f := []adapters.Finding{w.examineNotifications(ctx)}
		for _, table := range w.names {
			f = append(f, examineWakeTrigger(ctx, w.pool, table))
		}
		return f
	case Replication, Auto:
		return []adapters.Finding{w.examineWAL(ctx)}
	case Poll:
	}
	return nil
}

func (w *Waker) examineNotifications(ctx context.Context) adapters.Finding {
	switch err := hears(ctx, w.pool); {
	case errors.Is(err, errUnheard):
		return adapters.Finding{Level: adapters.LevelBroken, Subject: "notifications", Text: err.Error() + "; new rows are found by polling alone",
			Fix: "connect to the server itself, or to a pool in session mode; or set wake: poll"}
	case err != nil:
		return pg.Unknown("notifications", err)
	}
	return pg.Fine("notifications", "they are heard")
}

// examineWAL follows the WAL for a moment, and says what wakes the source if that fails.
func (w *Waker) examineWAL(ctx context.Context) adapters.Finding {
	const subject = "wake-up"
	err := w.tryWAL(ctx)
	if err == nil {
		return pg.Fine(subject, "by replication: each commit wakes the relay, whoever publishes")
	}
	no, is := errors.AsType[*refused](err)
	switch {
	case !is:
		return pg.Unknown(subject, err)
	case w.mode == Replication:
		return adapters.Finding{Level: adapters.LevelBroken, Subject: subject, Text: no.why + "; new rows are found by polling alone", Fix: no.fix + "; or set wake: auto"}
	}
	switch err := w.triggered(ctx); {
	case err == nil:
		return pg.Fine(subject, "by notifications of the tables' triggers; by replication it would cost publishers nothing, but "+no.why+": "+no.fix)
	case errors.As(err, new(*refused)):
		return pg.Fine(subject, "none, new rows are found by polling; by replication each commit would wake the relay, but "+no.why+": "+no.fix+
			"; or `outrider init --notify` makes triggers that notify it")
	default:
		return pg.Unknown(subject, err)
	}
}

// tryWAL returns nil if the WAL is followed, or can be.
func (w *Waker) tryWAL(ctx context.Context) error {
	if w.follows.Load() {
		return nil
	}
	s, err := openStream(ctx, w.pool, walSilence)
	if err == nil {
		s.close()
	}
	return err
}

// triggered returns nil if all tables have the trigger, and the WAL is not followed: then it is needed.
func (w *Waker) triggered(ctx context.Context) error {
	if w.follows.Load() {
		return &refused{"the WAL is followed", "nothing has to be done", true}
	}
	for _, name := range w.names {
		there, err := hasTrigger(ctx, w.pool, name)
		if err != nil {
			return err
		}
		if !there {
			return &refused{"table " + name.Sanitize() + " has no trigger " + Trigger, "`outrider init --notify` makes one", false}
		}
	}
	return nil
}

func hasTrigger(ctx context.Context, pool *pgxpool.Pool, name pgx.Identifier) (there bool, err error) {
	full, err := pg.LocateTable(ctx, pool, name)
	if err == nil {
		err = pool.QueryRow(ctx, ThereSQL, full.Sanitize()).Scan(&there)
	}
	return there, err
}

var errUnheard = errors.New("a notification that was sent is not heard: a pooler in transaction or statement mode is in between")

// hears listens on one connection for what another one sends, on a channel
// with a random name.
func hears(ctx context.Context, pool *pgxpool.Pool) error {
	c, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := c.Hijack() // what listens is not given back
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if pg.KeepsSession(conn) != nil {
		return errUnheard // LISTEN would stay with another client
	}
	channel := "outrider_doctor_" + rand.Text()
	if _, err := conn.PgConn().Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()).ReadAll(); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "SELECT pg_catalog.pg_notify($1, '')", pgx.QueryExecModeSimpleProtocol, channel); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, hearingLimit)
	defer cancel()
	if _, err := conn.WaitForNotification(waiting); err != nil && ctx.Err() == nil {
		return errUnheard
	}
	return ctx.Err()
}

func examineWakeTrigger(ctx context.Context, pool *pgxpool.Pool, name pgx.Identifier) adapters.Finding {
	table := name.Sanitize()
	subject := "table " + table + ": trigger " + Trigger
	there, err := hasTrigger(ctx, pool, name)
	switch {
	case err != nil:
		return pg.Unknown(subject, err)
	case there:
		return pg.Fine(subject, "every INSERT wakes the relay")
	}
	return pg.Fine(subject, fmt.Sprintf("none: publishers that notify by themselves (docs/waking.md) wake the relay, what others insert is found by polling; "+
		"`outrider init --notify` makes one for %s", table))
}
