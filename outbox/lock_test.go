package outbox_test

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/outbox"
)

// A writer in another language takes the same lock by the documented statement.
const plainTryLock = `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 8031453545228428658))`

func TestLockHoldsItsGroupsUntilTheTransactionEnds(t *testing.T) {
	t.Parallel()
	pool := postgresPool(t)
	free := func(group string) (ok bool) {
		must(t, pool.QueryRow(t.Context(), plainTryLock, group).Scan(&ok))
		return ok
	}
	tx, err := pool.Begin(t.Context())
	must(t, err)
	must(t, outbox.Lock(t.Context(), tx, "b", `quote"d\`, "a", "b"))
	for group, want := range map[string]bool{"a": false, "b": false, `quote"d\`: false, "c": true} {
		if got := free(group); got != want {
			t.Errorf("group %s: free %t, want %t", group, got, want)
		}
	}
	must(t, tx.Rollback(t.Context()))
	if !free("a") {
		t.Error("group a is locked after the rollback")
	}
}

func TestLockWaitsForTheOtherWriter(t *testing.T) {
	t.Parallel()
	pool := postgresPool(t)
	db := openDB(t, "pgx", pool.Config().ConnString())
	first, err := pool.Begin(t.Context())
	must(t, err)
	must(t, outbox.Lock(t.Context(), first, "g"))

	second, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	got := make(chan error, 1)
	go func() { got <- outbox.Lock(t.Context(), second, "g") }()
	waitForLockWaiter(t, pool)
	select {
	case err := <-got:
		t.Errorf("the second writer did not wait: %v", err)
	default:
	}
	must(t, first.Commit(t.Context()))
	must(t, <-got)
	must(t, second.Rollback())
}

// waitForLockWaiter returns when a backend of this database waits for a lock.
func waitForLockWaiter(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for waiting := false; !waiting; {
		must(t, pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE NOT granted AND locktype = 'advisory' AND datname = current_database())`).Scan(&waiting))
	}
}

func TestLockOfSeveralGroupsNeverDeadlocks(t *testing.T) {
	t.Parallel()
	pool := postgresPool(t)
	orders := [][]string{{"a", "b", "c", "d"}, {"d", "c", "b", "a"}, {"b", "d", "a", "c"}, {"c", "a", "d", "b"}}
	var wg sync.WaitGroup
	for _, groups := range orders {
		wg.Go(func() {
			for range 100 {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					return outbox.Lock(t.Context(), tx, groups...)
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestG2_WritersThatLockTheirGroupPublishInCommitOrder(t *testing.T) {
	t.Parallel()
	pool := postgresPool(t)
	const writers, each = 4, 50
	c := client(t, outbox.PostgreSQL)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := publishNext(t.Context(), pool, c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()

	list, err := pool.Query(t.Context(), `SELECT payload::text FROM outrider_outbox ORDER BY position`)
	must(t, err)
	got, err := pgx.CollectRows(list, pgx.RowTo[string])
	must(t, err)
	if len(got) != writers*each {
		t.Fatalf("%d rows, want %d", len(got), writers*each)
	}
	for i, payload := range got {
		if payload != strconv.Itoa(i+1) {
			t.Fatalf("row %d of the group has number %s: a writer did not see all earlier ones", i+1, payload)
		}
	}
}

// publishNext publishes the number after the last one that the writer can see.
// Two writers that did not take turns would publish the same number.
func publishNext(ctx context.Context, pool *pgxpool.Pool, c *outbox.Client) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := c.Lock(ctx, tx, "g"); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM outrider_outbox WHERE message_group = 'g'`).Scan(&n); err != nil {
			return err
		}
		e, err := outbox.New("t").Group("g").JSON(n + 1).Build()
		if err != nil {
			return err
		}
		return c.Publish(ctx, tx, e)
	})
}

func TestLockRefusesGroupsThatCannotBePublished(t *testing.T) {
	t.Parallel()
	inTx(t, sqliteDB(t), func(tx *sql.Tx) {
		for group, want := range map[string]string{"": "group 2 of 2 is empty", "a\x00": "control character"} {
			for _, lock := range []func(context.Context, any, ...string) error{outbox.Lock, client(t, outbox.SQLite).Lock} {
				if err := lock(t.Context(), tx, "ok", group); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("group %q: %v, want %q", group, err, want)
				}
			}
		}
	})
}

func TestLockOnSQLite(t *testing.T) {
	t.Parallel()
	db := sqliteDB(t)
	c := client(t, outbox.SQLite)
	inTx(t, db, func(tx *sql.Tx) {
		must(t, c.Lock(t.Context(), tx, "g"))
		must(t, outbox.Lock(t.Context(), tx)) // no groups: nothing to lock anywhere
		if err := outbox.Lock(t.Context(), tx, "g"); err == nil || !strings.Contains(err.Error(), "on SQLite use Client.Lock") {
			t.Errorf("the function for PostgreSQL: %v", err)
		}
	})
	if err := c.Lock(t.Context(), db, "g"); err == nil {
		t.Error("a *sql.DB was accepted")
	}
}
