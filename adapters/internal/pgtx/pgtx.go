// Package pgtx holds what destinations that write into PostgreSQL ([adapters.TxDestination]) have in common: deliveries in
// transactions of their own, and what an error of the server says about messages.
package pgtx

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// DefaultMessages bounds the rows of one statement where nothing is set.
const DefaultMessages = 500

// maxBytes bounds the payloads of one statement.
const maxBytes = 4 << 20

// Ordering is that of a destination that writes at most so many rows with one statement.
func Ordering(messages int) adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitWave, MaxMessages: messages, MaxBytes: maxBytes, Static: true}
}

// errRefused rolls back a transaction in which messages were refused.
var errRefused = errors.New("messages were refused")

// Deliver is the Deliver of a destination, in transactions of its own: at least once. name begins its errors.
func Deliver(ctx context.Context, name string, pool *pgxpool.Pool, to adapters.TxDestination, address string, batch []*message.Message) []error {
	group := func(msg *message.Message) string { return msg.Metadata[outbox.MetaGroup] }
	return adapters.InParts(batch, group, func(part []*message.Message) (errs []error, ended error) {
		var committed func()
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if committed, errs = to.DeliverTx(ctx, tx, address, part); errs != nil {
				return errRefused
			}
			return nil
		})
		if err != nil && !errors.Is(err, errRefused) {
			return nil, outbox.Unavailable(fmt.Errorf("%s: %w", name, err), 0)
		}
		if err == nil && committed != nil {
			committed()
		}
		for _, err := range errs {
			if err != nil && outbox.KindOf(err) == outbox.KindUnavailable {
				return nil, err
			}
		}
		return errs, nil
	})
}

// Fixes say what to do where tables are not as they should be.
type Fixes struct {
	Shape  string // they are missing, or have other columns
	Rights string // the role may not write them
}

// Classify gives an error of an INSERT its kind. An error of the database, its tables or rights is no message's
// fault, and neither is one of another transaction; one of the values of a row is, and so is one that a trigger of the table raises, which may
// decide otherwise the next time.
func Classify(err error, fixes Fixes) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return outbox.Unavailable(err, 0)
	}
	switch refused.Code {
	case "40001", "40P01", "55P03":
		return fmt.Errorf("%w: %w", adapters.ErrConflict, err)
	case "42P01", "42P10", "42703", "42704", "42804", "42883", "3F000":
		return outbox.Unavailable(fmt.Errorf("%w; %s", err, fixes.Shape), 0)
	case "42501":
		if refused.Routine == "ExecWithCheckOptions" { // row security, by which other rows may be written
			return outbox.Permanent(err)
		}
		return outbox.Unavailable(fmt.Errorf("%w; %s", err, fixes.Rights), 0)
	}
	switch {
	case strings.HasPrefix(refused.Code, "P0"), refused.Code == "21000": // a subquery or an ON CONFLICT of a trigger that meets too many rows
		return err
	case strings.HasPrefix(refused.Code, "22"), strings.HasPrefix(refused.Code, "23"), strings.HasPrefix(refused.Code, "54"), refused.Code == "44000":
		return outbox.Permanent(err)
	}
	return outbox.Unavailable(err, 0)
}
