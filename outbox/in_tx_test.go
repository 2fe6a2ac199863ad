package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/outriderhq/outrider/outbox"
)

// inTxOf is outbox.InTx on one of the databases and drivers, with fn that needs no tx of a certain type.
type inTxOf struct {
	db    *sql.DB // to look with
	c     *outbox.Client
	begin func(ctx context.Context, fn func(ctx context.Context, tx any) error) error
}

func inTxEverywhere(t *testing.T) map[string]inTxOf {
	t.Helper()
	pool, db, lite := postgresPool(t), postgresDB(t), sqliteDB(t)
	pooled := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { must(t, pooled.Close()) })
	lite.SetMaxOpenConns(1) // a transaction that is left open blocks the next statement for ever
	return map[string]inTxOf{
		"pgx": {pooled, client(t, outbox.PostgreSQL), func(ctx context.Context, fn func(context.Context, any) error) error {
			return outbox.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error { return fn(ctx, tx) })
		}},
		"database/sql": {db, client(t, outbox.PostgreSQL), func(ctx context.Context, fn func(context.Context, any) error) error {
			return outbox.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error { return fn(ctx, tx) })
		}},
		"SQLite": {lite, client(t, outbox.SQLite), func(ctx context.Context, fn func(context.Context, any) error) error {
			return outbox.InTx(ctx, lite, func(ctx context.Context, tx *sql.Tx) error { return fn(ctx, tx) })
		}},
	}
}

func (d inTxOf) count(t *testing.T) (n int) {
	t.Helper()
	must(t, d.db.QueryRowContext(t.Context(), "SELECT count(*) FROM outrider_outbox").Scan(&n))
	return n
}

// hooks registers hooks that note their order.
func hooks(t *testing.T, ctx context.Context, ran *[]string) {
	t.Helper()
	for _, name := range []string{"1", "2"} {
		must(t, outbox.AfterCommit(ctx, func(context.Context) { *ran = append(*ran, "commit "+name) }))
		must(t, outbox.AfterRollback(ctx, func(context.Context) { *ran = append(*ran, "rollback "+name) }))
	}
}

var (
	afterCommit   = []string{"commit 1", "commit 2"}
	afterRollback = []string{"rollback 1", "rollback 2"}
)

func TestInTxCommitsAndRunsHooksAfterwards(t *testing.T) {
	t.Parallel()
	for name, d := range inTxEverywhere(t) {
		t.Run(name, func(t *testing.T) {
			var ran []string
			var stale context.Context
			must(t, d.begin(t.Context(), func(ctx context.Context, tx any) error {
				stale = ctx
				hooks(t, ctx, &ran)
				must(t, outbox.AfterCommit(ctx, func(ctx context.Context) {
					if n := d.count(t); n != 2 {
						t.Errorf("a hook sees %d messages, want the 2 that were committed", n)
					}
					if err := d.c.Publish(ctx, nil, event(t, "g")); !errors.Is(err, outbox.ErrNoTransaction) {
						t.Errorf("publishing in a hook: %v", err)
					}
				}))
				must(t, d.c.Lock(ctx, nil, "g"))
				must(t, d.c.Publish(ctx, nil, event(t, "g"))) // finds the transaction
				must(t, d.c.Publish(ctx, tx, event(t, "g")))
				if len(ran) > 0 {
					t.Errorf("hooks ran before the commit: %q", ran)
				}
				return nil
			}))
			if !slices.Equal(ran, afterCommit) {
				t.Errorf("hooks: %q", ran)
			}
			if err := d.c.Publish(stale, nil, event(t, "g")); !errors.Is(err, outbox.ErrNoTransaction) {
				t.Errorf("publishing after the end: %v", err)
			}
			if err := outbox.AfterCommit(stale, func(context.Context) {}); !errors.Is(err, outbox.ErrNoTransaction) {
				t.Errorf("a hook after the end: %v", err)
			}
		})
	}
}

func TestInTxRollsBackWhateverEndsTheFunction(t *testing.T) {
	t.Parallel()
	failure := errors.New("out of stock")
	for name, d := range inTxEverywhere(t) {
		for how, end := range map[string]func(cancel func()) error{
			"error":  func(func()) error { return failure },
			"panic":  func(func()) error { panic(failure) },
			"cancel": func(cancel func()) error { cancel(); return nil },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				var ran []string
				var err error
				ctx, cancel := context.WithCancelCause(t.Context())
				func() {
					defer func() {
						if r := recover(); r != nil {
							err, _ = r.(error)
						}
					}()
					err = d.begin(ctx, func(ctx context.Context, _ any) error {
						hooks(t, ctx, &ran)
						must(t, d.c.Publish(ctx, nil, event(t, "g")))
						return end(func() { cancel(failure) })
					})
				}()
				cancel(nil)
				if !errors.Is(err, failure) || !slices.Equal(ran, afterRollback) {
					t.Errorf("got %v, hooks %q", err, ran)
				}
				if n := d.count(t); n != 0 {
					t.Errorf("%d messages were committed", n)
				}
			})
		}
	}
}

func TestInTxRefusedByTheDatabaseAtCommit(t *testing.T) {
	t.Parallel()
	for name, d := range inTxEverywhere(t) {
		t.Run(name, func(t *testing.T) {
			_, err := d.db.ExecContext(t.Context(), "CREATE TABLE orders (id int PRIMARY KEY)")
			must(t, err)
			_, err = d.db.ExecContext(t.Context(), "CREATE TABLE items (id int REFERENCES orders DEFERRABLE INITIALLY DEFERRED)")
			must(t, err)
			if name == "SQLite" {
				_, err = d.db.ExecContext(t.Context(), "PRAGMA foreign_keys = 1")
				must(t, err)
			}
			var ran []string
			err = d.begin(t.Context(), func(ctx context.Context, tx any) error {
				hooks(t, ctx, &ran)
				must(t, d.c.Publish(ctx, tx, event(t, "g")))
				return execIn(ctx, tx, "INSERT INTO items VALUES (1)")
			})
			if err == nil || errors.Is(err, outbox.ErrOutcomeUnknown) || !slices.Equal(ran, afterRollback) {
				t.Errorf("got %v, hooks %q", err, ran)
			}
			if n := d.count(t); n != 0 {
				t.Errorf("%d messages were committed", n)
			}
			must(t, d.begin(t.Context(), func(ctx context.Context, tx any) error { return d.c.Publish(ctx, tx, event(t, "g")) }))
		})
	}
}

// A statement failed and its error was overlooked: PostgreSQL answers COMMIT with ROLLBACK.
func TestInTxOfAFailedTransactionIsRolledBack(t *testing.T) {
	t.Parallel()
	all := inTxEverywhere(t)
	for _, name := range []string{"pgx", "database/sql"} {
		d := all[name]
		var ran []string
		err := d.begin(t.Context(), func(ctx context.Context, tx any) error {
			hooks(t, ctx, &ran)
			must(t, d.c.Publish(ctx, tx, event(t, "g")))
			_ = execIn(ctx, tx, "SELECT 1/0")
			return nil
		})
		if !errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, outbox.ErrOutcomeUnknown) || !slices.Equal(ran, afterRollback) {
			t.Errorf("%s: %v, hooks %q", name, err, ran)
		}
	}
}

func execIn(ctx context.Context, tx any, query string) (err error) {
	switch tx := tx.(type) {
	case pgx.Tx:
		_, err = tx.Exec(ctx, query)
	case *sql.Tx:
		_, err = tx.ExecContext(ctx, query)
	}
	return err
}

// cutAtCommit is a connection that breaks when the server has got COMMIT and before it answers.
type cutAtCommit struct {
	net.Conn
	cut bool // by the one goroutine that uses the connection
}

func (c *cutAtCommit) Write(b []byte) (int, error) {
	c.cut = c.cut || strings.Contains(string(b), "commit")
	return c.Conn.Write(b)
}

func (c *cutAtCommit) Read(b []byte) (int, error) {
	if c.cut {
		_, _ = c.Conn.Read(b) // it has answered, so it is done
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Read(b)
}

func TestG1_InTxRunsNoHookWhenTheOutcomeOfCommitIsUnknown(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(postgresURL(t))
	must(t, err)
	look, err := pgxpool.NewWithConfig(t.Context(), cfg.Copy())
	must(t, err)
	t.Cleanup(look.Close)
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &cutAtCommit{Conn: c}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDB(*cfg.ConnConfig)
	t.Cleanup(func() { must(t, db.Close()) })

	c := client(t, outbox.PostgreSQL)
	var ran []string
	work := func(ctx context.Context) error {
		hooks(t, ctx, &ran)
		return c.Publish(ctx, nil, event(t, "g"))
	}
	for name, err := range map[string]error{
		"pgx":          outbox.InTx(t.Context(), pool, func(ctx context.Context, _ pgx.Tx) error { return work(ctx) }),
		"database/sql": outbox.InTx(t.Context(), db, func(ctx context.Context, _ *sql.Tx) error { return work(ctx) }),
	} {
		if !errors.Is(err, outbox.ErrOutcomeUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(ran) > 0 {
		t.Errorf("hooks ran: %q", ran)
	}
	var n int
	must(t, look.QueryRow(t.Context(), "SELECT count(*) FROM outrider_outbox").Scan(&n))
	if n != 2 {
		t.Errorf("%d messages, but both were committed", n)
	}
}

func TestInTxInsideOfInTx(t *testing.T) {
	t.Parallel()
	failure := errors.New("no such customer")
	for name, d := range inTxEverywhere(t) {
		t.Run(name, func(t *testing.T) {
			var ran []string
			publish := func(ctx context.Context, _ any) error {
				hooks(t, ctx, &ran)
				return d.c.Publish(ctx, nil, event(t, "g"))
			}
			must(t, d.begin(t.Context(), func(ctx context.Context, _ any) error {
				must(t, d.begin(ctx, publish))
				if len(ran) > 0 {
					t.Errorf("hooks ran before the outer end: %q", ran)
				}
				return d.c.Publish(ctx, nil, event(t, "g"))
			}))
			if n := d.count(t); n != 2 || !slices.Equal(ran, afterCommit) {
				t.Errorf("%d messages, hooks %q", n, ran)
			}
			for how, fail := range map[string]func() error{
				"error": func() error { return failure },
				"panic": func() error { panic(failure) },
			} {
				ran = nil
				err := d.begin(t.Context(), func(ctx context.Context, _ any) error {
					defer func() { _ = recover() }()
					_ = d.begin(ctx, func(ctx context.Context, tx any) error {
						must(t, publish(ctx, tx))
						return fail()
					})
					return nil // as if it did not matter
				})
				if err == nil || how == "error" && !errors.Is(err, failure) || !slices.Equal(ran, afterRollback) {
					t.Errorf("%s: %v, hooks %q", how, err, ran)
				}
			}
			if n := d.count(t); n != 2 {
				t.Errorf("%d messages after nested failures, want the 2 of before", n)
			}
		})
	}
}

func TestInTxOfAnotherDatabaseIsItsOwn(t *testing.T) {
	t.Parallel()
	all := inTxEverywhere(t)
	a, b := all["pgx"], all["SQLite"]
	var ran []string
	failure := errors.New("a fails")
	err := a.begin(t.Context(), func(ctx context.Context, _ any) error {
		must(t, b.begin(ctx, func(ctx context.Context, _ any) error {
			hooks(t, ctx, &ran)
			must(t, b.c.Publish(ctx, nil, event(t, "g")))
			return a.begin(ctx, func(ctx context.Context, _ any) error { // joins, past the one in between
				return a.c.Publish(ctx, nil, event(t, "g"))
			})
		}))
		return failure
	})
	if !errors.Is(err, failure) || !slices.Equal(ran, afterCommit) || a.count(t) != 0 || b.count(t) != 1 {
		t.Errorf("%v, hooks of b %q, a has %d messages, b %d", err, ran, a.count(t), b.count(t))
	}
}

func TestInTxSaysWhenTheFunctionEndedItsTransaction(t *testing.T) {
	t.Parallel()
	pool := postgresPool(t)
	var ran []string
	for _, result := range []error{nil, errors.New("failed")} {
		err := outbox.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			hooks(t, ctx, &ran)
			must(t, tx.Commit(ctx))
			return result
		})
		if !errors.Is(err, outbox.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "ended the transaction itself") || len(ran) > 0 {
			t.Errorf("got %v, hooks %q", err, ran)
		}
	}
}

func TestInTxHandsPanicsOfHooksToTheCaller(t *testing.T) {
	t.Parallel()
	db := sqliteDB(t)
	var ran []string
	defer func() {
		if r := recover(); r != "hook" || !slices.Equal(ran, afterCommit) {
			t.Errorf("recovered %v, hooks %q", r, ran)
		}
	}()
	_ = outbox.InTx(t.Context(), db, func(ctx context.Context, _ *sql.Tx) error {
		must(t, outbox.AfterCommit(ctx, func(context.Context) { panic("hook") }))
		hooks(t, ctx, &ran)
		return nil
	})
}

func TestInTxTakesOptionsAndRefusesMisuse(t *testing.T) {
	t.Parallel()
	pool, db := postgresPool(t), postgresDB(t)
	level := func(ctx context.Context, tx pgx.Tx) error {
		var got string
		if err := tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&got); err != nil || got != "serializable" {
			return fmt.Errorf("isolation %q: %w", got, err)
		}
		return nil
	}
	serializable := pgx.TxOptions{IsoLevel: pgx.Serializable}
	must(t, outbox.InTx(t.Context(), pool, level, serializable))
	if err := outbox.InTx(t.Context(), pool, level, serializable, serializable); err == nil || !strings.Contains(err.Error(), "one set") {
		t.Errorf("two options: %v", err)
	}
	must(t, outbox.InTx(t.Context(), pool, func(ctx context.Context, _ pgx.Tx) error {
		if err := outbox.InTx(ctx, pool, level, serializable); err == nil || !strings.Contains(err.Error(), "outer") {
			t.Errorf("options inside: %v", err)
		}
		return nil
	}))
	err := outbox.InTx(t.Context(), odd{}, func(context.Context, string) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "cannot use a string") {
		t.Errorf("no transaction: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err = outbox.InTx(ended, db, func(context.Context, *sql.Tx) error { t.Error("it ran"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is over: %v", err)
	}
	for _, err := range []error{
		outbox.AfterCommit(t.Context(), func(context.Context) {}),
		outbox.AfterRollback(t.Context(), func(context.Context) {}),
		client(t, outbox.PostgreSQL).Publish(t.Context(), nil, event(t, "g")),
		outbox.Lock(t.Context(), nil, "g"),
	} {
		if !errors.Is(err, outbox.ErrNoTransaction) {
			t.Errorf("outside of a transaction: %v", err)
		}
	}
}

// odd begins what is no transaction.
type odd struct{}

func (odd) BeginTx(context.Context, int) (string, error) { return "", nil }

// The server's answers to COMMIT that leave the outcome open, as poolers and servers that stop give them.
func TestAnswersToCommitThatLeaveTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	for state, unknown := range map[string]bool{
		"40001": false, "23503": false, "08006": true, "08P01": true, "57P01": true, "40003": true,
	} {
		var ran []string
		err := outbox.InTx(t.Context(), answering{&pgconn.PgError{Code: state}}, func(ctx context.Context, _ answer) error {
			hooks(t, ctx, &ran)
			return nil
		})
		if errors.Is(err, outbox.ErrOutcomeUnknown) != unknown || unknown != (len(ran) == 0) {
			t.Errorf("%s: %v, hooks %q", state, err, ran)
		}
	}
}

// answering is a database whose transactions answer COMMIT with an error.
type (
	answering struct{ err error }
	answer    struct {
		pgx.Tx
		err error
	}
)

func (a answering) BeginTx(context.Context, struct{}) (answer, error) { return answer{err: a.err}, nil }
func (a answer) Commit(context.Context) error                         { return a.err }

// A goroutine that the function left behind cannot hold up the end, nor add to it.
func TestInTxEndsByItsDeadline(t *testing.T) {
	t.Parallel()
	db := sqliteDB(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := outbox.InTx(ctx, db, func(ctx context.Context, _ *sql.Tx) error {
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
