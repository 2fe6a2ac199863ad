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

// Examine looks, where a source wants to be notified, whether it can be, and
// by whom.
func (w *Waker) Examine(ctx context.Context) []adapters.Finding {
	if w.tables == nil {
		return nil
	}
	var f []adapters.Finding
	switch err := hears(ctx, w.pool); {
	case errors.Is(err, errUnheard):
		f = append(f, adapters.Finding{Level: adapters.LevelBroken, Subject: "notifications", Text: err.Error() + "; new rows are found by polling alone",
			Fix: "connect to the server itself, or to a pool in session mode; or set wake: poll"})
	case err != nil:
		f = append(f, pg.Unknown("notifications", err))
	default:
		f = append(f, pg.Fine("notifications", "they are heard"))
	}
	for _, table := range w.names {
		f = append(f, examineWakeTrigger(ctx, w.pool, table))
	}
	return f
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
	var there bool
	full, err := pg.LocateTable(ctx, pool, name)
	if err == nil {
		err = pool.QueryRow(ctx, ThereSQL, full.Sanitize()).Scan(&there)
	}
	switch {
	case err != nil:
		return pg.Unknown(subject, err)
	case there:
		return pg.Fine(subject, "every INSERT wakes the relay")
	}
	return pg.Fine(subject, fmt.Sprintf("none: publishers that notify by themselves (docs/waking.md) wake the relay, what others insert is found by polling; "+
		"`outrider init --notify` makes one for %s", table))
}
