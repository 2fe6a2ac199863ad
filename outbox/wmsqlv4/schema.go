// Package wmsqlv4 is package outbox/wmsql for watermill-sql v4, whose Publisher joins transactions of database/sql and of pgx.
// Rows, limits and errors are the same.
//
// It is a way in only: Outrider reads the table, and `outrider init` creates it.
package wmsqlv4

import (
	stdsql "database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/internal/fromwatermill"
)

// ErrPublishOnly is the error of a [Schema] for a watermill-sql Subscriber.
var ErrPublishOnly = errors.New("wmsqlv4: the outbox table cannot be read by a watermill-sql Subscriber; " +
	"read it with Outrider (a route whose source is the table)")

// Schema is a watermill-sql SchemaAdapter for Outrider's own table layout. The zero value writes [outbox.DefaultTable] in
// PostgreSQL, by any driver. How a message becomes a row is told at the Schema of package outbox/wmsql.
type Schema struct {
	// Table is the outbox table, optionally "schema.table".
	// Default: [outbox.DefaultTable].
	Table string

	// Dialect is the database. Default: [outbox.PostgreSQL].
	Dialect outbox.Dialect

	// Notify wakes a relay that sleeps, as [outbox.ClientConfig.Notify] does, in
	// the statement that inserts. PostgreSQL only. Default: false.
	Notify bool
}

var _ wmsql.SchemaAdapter = Schema{}

// NewPublisher returns a stock watermill-sql Publisher on the transaction. It is for this transaction only; committing stays with
// the caller. A nil tx is [outbox.ErrNoTransaction].
func NewPublisher(tx *stdsql.Tx, schema Schema, logger watermill.LoggerAdapter) (*wmsql.Publisher, error) {
	if tx == nil {
		return nil, errNil
	}
	return newPublisher(wmsql.TxFromStdSQL(tx), schema, logger)
}

// NewPgxPublisher is [NewPublisher] on a transaction of pgx.
func NewPgxPublisher(tx pgx.Tx, schema Schema, logger watermill.LoggerAdapter) (*wmsql.Publisher, error) {
	if tx == nil {
		return nil, errNil
	}
	return newPublisher(wmsql.TxFromPgx(tx), schema, logger)
}

var errNil = fmt.Errorf("wmsqlv4: the transaction is nil: %w", outbox.ErrNoTransaction)

func newPublisher(tx wmsql.ContextExecutor, schema Schema, logger watermill.LoggerAdapter) (*wmsql.Publisher, error) {
	if _, err := outbox.NewClient(schema.config()); err != nil {
		return nil, err
	}
	return wmsql.NewPublisher(tx, wmsql.PublisherConfig{SchemaAdapter: schema}, logger)
}

func (s Schema) config() outbox.ClientConfig {
	return outbox.ClientConfig{Table: s.Table, Dialect: s.Dialect, Notify: s.Notify}
}

// InsertQuery returns the statement that writes the messages in their order,
// all or none. An error names the message and all its mistakes.
func (s Schema) InsertQuery(p wmsql.InsertQueryParams) (wmsql.Query, error) {
	query, args, err := fromwatermill.InsertQuery(s.config(), p.Topic, p.Msgs)
	return wmsql.Query{Query: query, Args: args}, err
}

// SchemaInitializingQueries returns none: `outrider init` makes the table.
func (Schema) SchemaInitializingQueries(wmsql.SchemaInitializingQueriesParams) ([]wmsql.Query, error) {
	return nil, nil
}

// SelectQuery returns [ErrPublishOnly].
func (Schema) SelectQuery(wmsql.SelectQueryParams) (wmsql.Query, error) {
	return wmsql.Query{}, ErrPublishOnly
}

// UnmarshalMessage returns [ErrPublishOnly].
func (Schema) UnmarshalMessage(wmsql.UnmarshalMessageParams) (wmsql.Row, error) {
	return wmsql.Row{}, ErrPublishOnly
}

// SubscribeIsolationLevel returns the database's default; nothing is read.
func (Schema) SubscribeIsolationLevel() stdsql.IsolationLevel { return stdsql.LevelDefault }
