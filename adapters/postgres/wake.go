package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wake"
	"github.com/outriderhq/outrider/outbox"
)

// wakeFunctionSQL is the function of the triggers. Of a partitioned table it is
// given the name of the table that was inserted into.
const wakeFunctionSQL = `CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Who gets this lock knows that no relay sleeps, and none falls asleep before the transaction has ended.
    IF NOT pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended(TG_TABLE_NAME::pg_catalog.text, {seed})) THEN
        PERFORM pg_catalog.pg_notify('{channel}', TG_TABLE_NAME::pg_catalog.text);
    END IF;
    RETURN NULL;
END $$`

// Once for each statement. OR REPLACE would need PostgreSQL 14.
const (
	wakeDropSQL    = `DROP TRIGGER IF EXISTS {trigger} ON {table}`
	wakeTriggerSQL = `CREATE TRIGGER {trigger} AFTER INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {function}()`
)

// InitWakeSQL returns the statements that make every INSERT into the tables wake
// a relay that sleeps, for every INSERT. [outbox.Client] can do without, see
// Notify of [outbox.ClientConfig]. Names are as in SQL.
func InitWakeSQL(tables ...string) string {
	var b strings.Builder
	b.WriteString("-- Wakes a relay with wake: notify that sleeps, whoever inserts; publishers of Outrider's\n" +
		"-- Go client with Notify need no trigger. It costs each INSERT a call of a function.\n")
	for _, table := range tables {
		name := pg.NameOf(table)
		for _, statement := range []string{wakeFunctionSQL, wakeDropSQL, wakeTriggerSQL} {
			fmt.Fprintf(&b, "%s;\n\n", wakeStatement(statement, name))
		}
	}
	return b.String()
}

// InitWake creates the triggers where they are missing, and says so.
func InitWake(ctx context.Context, pool *pgxpool.Pool, tables ...string) ([]string, error) {
	var done []string
	for _, table := range tables {
		name, err := pg.ParseTable(table)
		if err != nil {
			return done, err
		}
		did := "trigger " + wake.Trigger + " on " + name.Sanitize() + " exists"
		err = pg.InTurn(ctx, pool, name, func(tx pgx.Tx, full pgx.Identifier) error {
			if _, err := tx.Exec(ctx, wakeStatement(wakeFunctionSQL, full)); err != nil {
				return err
			}
			var there bool
			if err := tx.QueryRow(ctx, wake.ThereSQL, full.Sanitize()).Scan(&there); err != nil || there {
				return err
			}
			did = "created trigger " + wake.Trigger + " on " + full.Sanitize()
			_, err := tx.Exec(ctx, wakeStatement(wakeTriggerSQL, full))
			return err
		})
		if err != nil {
			return done, pg.DescribeOwn(table, "init --notify", err)
		}
		done = append(done, did)
	}
	return done, nil
}

// wakeStatement fills in the names.
func wakeStatement(sql string, table pgx.Identifier) string {
	return sqltext.Fill(sql, sqltext.Names{"function": pg.Beside(table, wake.Trigger).Sanitize(), "trigger": pgx.Identifier{wake.Trigger}.Sanitize(),
		"table": table.Sanitize(), "channel": outbox.WakeChannel, "seed": strconv.FormatInt(outbox.WakeNamespace, 10)})
}
