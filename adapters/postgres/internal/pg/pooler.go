package pg

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
)

const (
	lendsSessions = "a pooler in transaction or statement mode is in between: sessions keep nothing from one transaction to the next"
	keepSessions  = "connect to the server itself, or to a pool in session mode"
)

// ErrLentSessions is the error of work that needs a session of the server of its own. What it would set there would stay with other clients
// of the pooler: transactions of theirs would be read-only.
var ErrLentSessions = errors.New(lendsSessions + "; " + keepSessions)

// KeepsSession is [ErrLentSessions] for a connection that has no session of its own.
func KeepsSession(conn *pgx.Conn) error {
	if _, lent := conn.PgConn().CustomData()[lentSessions]; lent {
		return ErrLentSessions
	}
	return nil
}

// CheckSessions is [KeepsSession] for the connections of a pool.
func CheckSessions(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return KeepsSession(conn.Conn())
}

// ExaminePooler reports whether something between us and the server lends us
// another server session for each transaction.
func ExaminePooler(ctx context.Context, pool *pgxpool.Pool, what string) adapters.Finding {
	const subject = "pooler"
	shared, err := PoolSharesSessions(ctx, pool)
	if err != nil {
		return Unknown(subject, err)
	}
	if shared {
		return lent(what)
	}
	return Fine(subject, "none in transaction mode: sessions keep their settings")
}

// lent is the finding about a pooler that lends sessions.
func lent(what string) adapters.Finding {
	return adapters.Finding{Level: adapters.LevelBroken, Subject: "pooler",
		Text: lendsSessions + ", which " + what + " needs (prepared statements, settings, advisory locks); a LISTEN behind it hears nothing", Fix: keepSessions}
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

// sharingRounds is how often connections are compared. Other clients of the pooler can hide in one round that sessions are lent.
const sharingRounds = 3

// sessionsAreShared compares two connections: while one keeps a transaction open, the other must have another session of the server, and
// always the same. A pooler lends the session that was given back last, or the one that was given back first: so after the transaction
// the other one asks twice. Nothing is set there, which could stay with other clients.
func sessionsAreShared(ctx context.Context, first, second *pgx.Conn) (bool, error) {
	// Plain statements: a pooler may not know prepared ones.
	process := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}) (pid int, err error) {
		err = q.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
		return pid, err
	}
	own, err := process(first)
	for round := 0; err == nil && round < sharingRounds; round++ {
		var tx pgx.Tx
		if tx, err = second.Begin(ctx); err != nil {
			break
		}
		var other, again int
		if other, err = process(tx); err == nil {
			again, err = process(first)
		}
		err = errors.Join(err, tx.Rollback(ctx))
		for i := 0; err == nil && i < 2 && other != own && again == own; i++ {
			again, err = process(first)
		}
		if err == nil && (other == own || again != own) {
			return true, nil
		}
	}
	if err != nil && strings.Contains(err.Error(), "statement pooling mode") {
		return true, nil // PgBouncer refuses BEGIN
	}
	return false, err
}
