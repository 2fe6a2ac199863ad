package statestore

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// SettleAside has settles go aside from now on.
func (s *Store) SettleAside() {
	until := time.Now().Add(time.Hour)
	s.aside.until.Store(&until)
}

// SettleInPlace ends that.
func (s *Store) SettleInPlace() { s.aside.until.Store(nil) }

// ExplainSettle returns what the statement that would be used now reads, as JSON, and undoes it.
func (s *Store) ExplainSettle(ctx context.Context, all []adapters.Settlement) (string, error) {
	if s.aside.on() {
		return s.explain(ctx, byIndex, asideSQL, settleArgs(all)...)
	}
	return s.explain(ctx, "", settleSQL, settleArgs(all)...)
}

// ExplainRenew is the same for a renewal.
func (s *Store) ExplainRenew(ctx context.Context, instance string) (string, error) {
	return s.explain(ctx, byIndex, renewAsideSQL, instance, time.Hour.Seconds())
}

func (s *Store) explain(ctx context.Context, before, sql string, args ...any) (text string, err error) {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, before); err != nil {
		return "", err
	}
	err = tx.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&text)
	return text, err
}
