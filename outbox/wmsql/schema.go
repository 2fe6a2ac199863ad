// Package wmsql lets a stock Publisher of watermill-sql v3 write Outrider's outbox
// table, for applications that publish through Watermill already: their
// messages become rows inside the application's *sql.Tx.
//
// It is a way in only. Reading the table is Outrider's business, and so is
// creating it (`outrider init`); the Schema's methods for a watermill-sql
// Subscriber do nothing but say so. For watermill-sql v4, whose Publisher joins
// transactions of pgx as well, there is package outbox/wmsqlv4. Applications that
// do not need Watermill's Publisher publish with [outbox.Client].
package wmsql

import (
	stdsql "database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/internal/fromwatermill"
)

// ErrPublishOnly is the error of a [Schema] for a watermill-sql Subscriber.
var ErrPublishOnly = errors.New("wmsql: the outbox table cannot be read by a watermill-sql Subscriber; " +
	"read it with Outrider (a route whose source is the table)")

// Schema is a watermill-sql SchemaAdapter for Outrider's own table layout.
// The zero value writes [outbox.DefaultTable] in PostgreSQL, by any driver.
//
// A message becomes a row like this:
//   - its UUID is the event id;
//   - its type is the metadata [outbox.MetaType] or, where that is absent, the
//     topic of Publish. With the metadata the topic has no meaning: all
//     messages go to one table;
//   - the metadata outbox.MetaGroup, MetaAggregateType, MetaAggregateID,
//     MetaTenant, MetaTags and MetaOccurredAt fill the columns of these names.
//     MetaPosition and MetaLane, which an earlier journey through Outrider left,
//     are dropped; all other metadata becomes headers;
//   - the payload is stored as JSON when [outbox.CheckJSON] accepts it and
//     MetaEncoding does not say [outbox.EncodingBytes], otherwise as bytes.
//     Either way its bytes arrive unchanged.
//
// The limits are those of an [outbox.Envelope]: a message beyond them makes
// Publish fail.
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

// NewPublisher returns a stock watermill-sql Publisher on the transaction. It
// is for this transaction only; committing stays with the caller. Unlike the
// stock constructor it cannot be given a *sql.DB, with which message and data
// would not be committed together. A nil tx is [outbox.ErrNoTransaction].
func NewPublisher(tx *stdsql.Tx, schema Schema, logger watermill.LoggerAdapter) (*wmsql.Publisher, error) {
	if tx == nil {
		return nil, fmt.Errorf("wmsql: the transaction is nil: %w", outbox.ErrNoTransaction)
	}
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
func (s Schema) InsertQuery(topic string, msgs message.Messages) (wmsql.Query, error) {
	query, args, err := fromwatermill.InsertQuery(s.config(), topic, msgs)
	return wmsql.Query{Query: query, Args: args}, err
}

// SchemaInitializingQueries returns none: `outrider init` makes the table.
func (Schema) SchemaInitializingQueries(string) []wmsql.Query { return nil }

// SelectQuery returns a query of one row, which [Schema.UnmarshalMessage] then
// refuses: an error is not among the results that watermill-sql allows here.
func (Schema) SelectQuery(string, string, wmsql.OffsetsAdapter) wmsql.Query {
	return wmsql.Query{Query: "SELECT 1"}
}

// UnmarshalMessage returns [ErrPublishOnly].
func (Schema) UnmarshalMessage(wmsql.Scanner) (wmsql.Row, error) {
	return wmsql.Row{}, ErrPublishOnly
}

// SubscribeIsolationLevel returns the database's default; nothing is read.
func (Schema) SubscribeIsolationLevel() stdsql.IsolationLevel { return stdsql.LevelDefault }
