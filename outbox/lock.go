package outbox

import (
	"context"
	"errors"
	"fmt"
)

// LockNamespace is the seed that keeps the locks of [Lock] apart from other
// advisory locks of the database: the ASCII codes of "outrider". A writer in
// another language takes the lock of a group with
//
//	SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('customer-7', 8031453545228428658))
const LockNamespace int64 = 0x6f75747269646572

// lockQuery takes the locks of an array of groups. Their keys are sorted and
// distinct below the node that takes the locks, so that two writers never wait
// for each other crosswise. It runs with the application's search path, so what it
// calls is named with its schema.
var lockQuery = fmt.Sprintf(`SELECT pg_catalog.pg_advisory_xact_lock(key)
FROM (SELECT DISTINCT pg_catalog.hashtextextended(name, %d) AS key FROM pg_catalog.unnest($1::text[]) AS name ORDER BY key) AS keys`, LockNamespace)

// Lock makes writers of the same group wait for each other until tx, a pgx.Tx or *sql.Tx on PostgreSQL
// or nil as in [Client.Publish], commits or rolls back. The order of a group is kept only if its writers
// take turns. Most do so by locking the row of the aggregate that they change; Lock is for transactions
// without such a row.
//
// Take it before the INSERT: before Publish, and before any other statement
// that can wait for another writer. One call locks several groups in a fixed
// order, which avoids deadlocks; a second call in the same transaction does
// not. Groups with equal 64-bit hashes also wait for each other, which costs
// only time.
//
// An empty group is refused, because it has no order. SQLite needs no lock,
// since it has one writer at a time; code for both databases calls
// [Client.Lock].
func Lock(ctx context.Context, tx any, groups ...string) error {
	exec, err := transaction(current(ctx, tx), PostgreSQL)
	if err != nil {
		return fmt.Errorf("outbox: lock: %w", err)
	}
	if err := checkGroups(groups); err != nil || len(groups) == 0 {
		return err
	}
	var names arrayLiteral
	for _, g := range groups {
		names.add(g)
	}
	if err := exec(ctx, lockQuery, names.String()); err != nil {
		return fmt.Errorf("outbox: lock %d group(s) (PostgreSQL only; on SQLite use Client.Lock): %w", len(groups), err)
	}
	return nil
}

// Lock is the function [Lock] for the client's dialect: on SQLite, where the
// database has one writer at a time anyway, it only checks its arguments. MySQL has no lock
// that ends with a transaction, and there it is an error.
func (c *Client) Lock(ctx context.Context, tx any, groups ...string) error {
	if c.dialect == PostgreSQL {
		return Lock(ctx, tx, groups...)
	}
	if _, err := transaction(current(ctx, tx), c.dialect); err != nil {
		return fmt.Errorf("outbox: lock: %w", err)
	}
	if c.dialect == MySQL && len(groups) > 0 {
		return errors.New("outbox: lock: MySQL has no lock on a name that ends with the transaction; lock a row of the aggregate before the INSERT, with SELECT ... FOR UPDATE")
	}
	return checkGroups(groups)
}

func checkGroups(groups []string) error {
	for i, g := range groups {
		if g == "" {
			return fmt.Errorf("outbox: lock: group %d of %d is empty; a message without group wants no order and needs no lock", i+1, len(groups))
		}
		if p := nameProblem(g); p != "" {
			return fmt.Errorf("outbox: lock: group %s %s", shown(g), p)
		}
	}
	return nil
}
