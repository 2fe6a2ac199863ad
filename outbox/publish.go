package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Dialect is the database that a client publishes to.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgres" // pgx.Tx, or *sql.Tx of any PostgreSQL driver
	SQLite     Dialect = "sqlite"   // *sql.Tx; SQLite 3.41 or newer
	MySQL      Dialect = "mysql"    // *sql.Tx of MariaDB 10.6 or MySQL 8 or newer, by github.com/go-sql-driver/mysql; tables of other systems only
)

// DefaultTable is the default name of the outbox table.
const DefaultTable = "outrider_outbox"

// MaxPublishBytes is the largest sum of payloads of one Publish, in bytes: 256
// MiB, so that the databases accept the statement.
const MaxPublishBytes = 256 << 20

// ClientConfig configures a [Client].
type ClientConfig struct {
	// Table is the outbox table, optionally "schema.table". The name is quoted,
	// so it is taken literally, upper case included. Default: [DefaultTable],
	// found by the transaction's search_path.
	Table string

	// Layout is the shape of the table, as in the configuration of its source: "outrider" is Outrider's own,
	// "outbox-framework" the one of the JDBC outbox framework, whose default name is outbox_event
	// (docs/migrate/outbox-framework.md), "yantra" that of Yantra, outbox_messages (docs/migrate/yantra.md). Default: "outrider".
	Layout string

	// Dialect is the database. Default: [PostgreSQL]. [MySQL] needs the Layout "outbox-framework": an append-only table of Outrider's
	// own cannot be read there without losing rows.
	Dialect Dialect

	// Notify wakes a relay that sleeps: one whose source has `wake: notify` and
	// that has found nothing for a while. It costs a shared advisory lock in
	// every transaction, and a NOTIFY only in those that meet a sleeping relay.
	// PREPARE TRANSACTION refuses such a transaction. PostgreSQL only. Default: false.
	Notify bool

	// Hot has messages delivered right after the commit by a relay in the same process that works on the same
	// table: what (*outrider.Outrider).HotPath returns. It is for transactions of [InTx], whose role needs SELECT on the
	// table; rows of other transactions wait for the relay's poll. With the Layout "outbox-framework" so do those of savepoints, of
	// other isolation levels than READ COMMITTED, and whatever is not certain to be the next of its group.
	// With MySQL and SQLite the relay reads the table right after the commit. It needs the Layout "outrider" or "outbox-framework", and
	// no Notify. Default: none.
	Hot HotPath
}

// Client writes envelopes into an outbox table, inside
// the application's transaction. It holds no connection and may be shared.
type Client struct {
	dialect Dialect
	table   string // quoted
	insert  string // any number of messages
	one     string // a single one, where there is a cheaper statement; or empty

	hot  HotPath                // nil: there is none
	fits func(*Envelope) error  // what the table has no place for; nil: it takes any envelope
	args func([]Envelope) []any // of insert

	rows func(table string, envelopes []Envelope) (string, []any) // in place of insert, one, args: a statement for so many rows; nil: they do
}

// NewClient returns a client, or an error that names the setting at fault.
// It does not connect to the database.
func NewClient(cfg ClientConfig) (*Client, error) {
	cfg.Dialect = cmp.Or(cfg.Dialect, PostgreSQL)
	if err := knownLayout(&cfg); err != nil {
		return nil, fmt.Errorf("outbox: client: %w", err)
	}
	foreign := layouts[cfg.Layout]
	if cfg.Hot != nil && (cfg.Notify || foreign.table != "" && cfg.Layout != layoutOutboxFramework) {
		return nil, fmt.Errorf("outbox: client: Hot needs the Layout \"outrider\" or %q, and no Notify; leave it out, and call (*outrider.Outrider).Wake "+
			"after the commit where the relay is in the same process", layoutOutboxFramework)
	}
	cfg.Table = cmp.Or(cfg.Table, foreign.table, DefaultTable)
	table, err := quoteTable(cfg.Table, cfg.Dialect)
	if err != nil {
		return nil, fmt.Errorf("outbox: client: %w", err)
	}
	c := &Client{dialect: cfg.Dialect, table: table, hot: cfg.Hot}
	switch cfg.Dialect {
	case PostgreSQL:
		c.insert, c.one, c.args = postgresInsert(table), postgresInsertOne(table), postgresArgs
		if foreign.table != "" {
			c.insert, c.one, c.args, c.fits = foreign.insert(table), "", foreign.args, foreign.fits
		}
		if cfg.Notify {
			c.insert = calling(c.insert, cfg.Table)
			if c.one != "" {
				c.one = calling(c.one, cfg.Table)
			}
		}
	case SQLite:
		if cfg.Notify {
			return nil, errors.New("outbox: client: SQLite cannot notify; leave Notify out, and call (*outrider.Outrider).Wake after the commit " +
				"where the relay is in the same process")
		}
		c.insert, c.args = sqliteInsert(table), sqliteArgs
		if foreign.sqlite != nil {
			c.insert, c.args, c.fits = foreign.sqlite(table), foreign.sqliteArgs, foreign.fits
		}
	case MySQL:
		if cfg.Notify {
			return nil, errors.New("outbox: client: with MySQL there is neither Notify nor Hot; leave them out, and call (*outrider.Outrider).Wake after the commit " +
				"where the relay is in the same process")
		}
		c.rows, c.fits = foreign.mysql, foreign.fits
	default:
		return nil, fmt.Errorf("outbox: client: unknown Dialect %q; use outbox.PostgreSQL, outbox.SQLite or outbox.MySQL", cfg.Dialect)
	}
	return c, nil
}

// Publish writes the envelopes in their order, all or none, with one statement
// in tx, which is a pgx.Tx or a *sql.Tx (or anything that embeds one), or nil
// for the transaction of [InTx] that ctx carries. They are published if the
// application commits, and not if it rolls back.
//
// Without a running transaction the error is [ErrNoTransaction]. After any
// other error the transaction must be rolled back. errors.As finds the errors
// of the database.
func (c *Client) Publish(ctx context.Context, tx any, envelopes ...Envelope) error {
	tx = current(ctx, tx)
	exec, err := transaction(tx, c.dialect)
	if err != nil {
		return fmt.Errorf("outbox: publish: %w", err)
	}
	query, args, err := c.InsertQuery(envelopes...)
	if err != nil {
		return err
	}
	if len(envelopes) == 0 {
		return nil
	}
	done := false
	if c.hot != nil && c.dialect == PostgreSQL {
		done, err = c.publishHot(ctx, tx, query, args)
	}
	if !done {
		err = exec(ctx, query, args...)
	}
	if c.hot != nil && c.dialect != PostgreSQL && err == nil {
		err = c.announce(ctx, tx, query)
	}
	if err != nil {
		return fmt.Errorf("outbox: publish %d message(s) into table %s: %w", len(envelopes), c.table, c.explain(err))
	}
	return nil
}

// InsertQuery returns the statement that Publish runs and its arguments, each a
// string or nil, for a toolkit whose transactions Publish does not know: run it
// in the transaction. There is one text for a single envelope and one for any
// other number; with [MySQL] one for each number, up to 5,000.
func (c *Client) InsertQuery(envelopes ...Envelope) (query string, args []any, err error) {
	size := 0
	for i, e := range envelopes {
		if e.typ == "" {
			return "", nil, fmt.Errorf("outbox: publish: envelope %d of %d is empty; make it with outbox.New(...).Build() and check the error", i+1, len(envelopes))
		}
		if c.fits != nil {
			if err := c.fits(&e); err != nil {
				return "", nil, err
			}
		}
		size += len(e.payload)
	}
	if size > MaxPublishBytes {
		return "", nil, fmt.Errorf("outbox: publish: %d payloads hold %d bytes, the limit of one call is %d; publish them in several calls in the same transaction", len(envelopes), size, MaxPublishBytes)
	}
	if c.rows != nil {
		if len(envelopes) > mysqlRows {
			return "", nil, fmt.Errorf("outbox: publish: %d messages are more than the %d of one statement in MySQL; publish them in several calls in the same transaction",
				len(envelopes), mysqlRows)
		}
		query, args = c.rows(c.table, envelopes)
		return query, args, nil
	}
	if len(envelopes) == 1 && c.one != "" {
		return c.one, postgresArgsOne(&envelopes[0]), nil
	}
	return c.insert, c.args(envelopes), nil
}
