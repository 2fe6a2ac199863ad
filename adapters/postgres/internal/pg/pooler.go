package pg

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
)

// ExaminePooler reports whether something between us and the server lends us
// another server session for each transaction. One connection sets a variable of
// its session; while another one keeps a transaction open, the first must still
// see it, and the other must not.
func ExaminePooler(ctx context.Context, pool *pgxpool.Pool, what string) adapters.Finding {
	const subject = "pooler"
	shared, err := PoolSharesSessions(ctx, pool)
	if err != nil {
		return Unknown(subject, err)
	}
	if shared {
		return adapters.Finding{Level: adapters.LevelBroken, Subject: subject,
			Text: "a pooler in transaction or statement mode is in between: sessions keep nothing from one transaction to the next, which " +
				what + " needs (prepared statements, settings, advisory locks); a LISTEN behind it hears nothing",
			Fix: "connect to the server itself, or to a pool in session mode"}
	}
	return Fine(subject, "none in transaction mode: sessions keep their settings")
}

// PoolSharesSessions reports whether two connections of a pool share a session.
func PoolSharesSessions(ctx context.Context, pool *pgxpool.Pool) (bool, error) {
	first, err := pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer first.Release()
	second, err := pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer second.Release()
	return sessionsAreShared(ctx, first.Conn(), second.Conn())
}

// sessionsAreShared compares two connections.
func sessionsAreShared(ctx context.Context, first, second *pgx.Conn) (bool, error) {
	// Plain statements: a pooler may not know prepared ones.
	ask := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}, sql string, args ...any) (text string, err error) {
		err = q.QueryRow(ctx, sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(&text)
		return text, err
	}
	const see = "SELECT coalesce(pg_catalog.current_setting('outrider.doctor', true), '')"
	mark := rand.Text()
	if _, err := ask(first, "SELECT pg_catalog.set_config('outrider.doctor', $1, false)", mark); err != nil {
		return false, err
	}
	tx, err := second.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // it did nothing
	other, err := ask(tx, see)
	if err != nil {
		return false, err
	}
	if other == mark {
		_, err := ask(tx, "SELECT pg_catalog.set_config('outrider.doctor', '', false)")
		return true, err
	}
	own, err := ask(first, see)
	if err != nil {
		return false, err
	}
	_, err = ask(first, "SELECT pg_catalog.set_config('outrider.doctor', '', false)")
	return own != mark, err
}
