package assembly

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/config"
)

// database is a kind of database; nil functions: it cannot do that.
type database struct {
	schemes []string // of its URLs, with ://; nil: any location
	state   func(b *Builder, location string) StateKind

	lost    func(error) bool                   // whether a connection was cut
	problem func(error) (text string, ok bool) // the cause of a failure to reach it
	fix     func(error) string                 // the fix for such a cause
}

// owns reports whether a location is one of the database.
func (d database) owns(location string) bool {
	return d.schemes == nil || slices.ContainsFunc(d.schemes, func(s string) bool { return strings.HasPrefix(location, s) })
}

// stateAt returns the state store at a location.
func (b *Builder) stateAt(location string) (k StateKind) {
	for _, d := range databases {
		if d.state != nil && d.owns(location) {
			return d.state(b, location)
		}
	}
	return k
}

// cuts are errors of a connection that was cut.
var cuts = []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}

// WasCut reports whether an error is about a connection that was cut, as by a restart of the server or by the network: the
// same may succeed in a moment. A refusal, such as of a password, is none, nor is an address where nothing listens.
func WasCut(err error) bool {
	return slices.ContainsFunc(cuts, func(cut error) bool { return errors.Is(err, cut) }) ||
		slices.ContainsFunc(databases, func(d database) bool { return d.lost != nil && d.lost(err) })
}

// ConnectionProblem returns the cause of a failure to reach a database, and the fix; false: err is another error.
func ConnectionProblem(err error) (text, fix string, ok bool) {
	for _, d := range databases {
		if d.problem == nil {
			continue
		}
		if text, ok = d.problem(err); ok {
			return text, d.fix(err), true
		}
	}
	return text, fix, ok
}

// newStateInit is the heading of the statements that create state.
const newStateInit = "-- All of it for a new installation; to upgrade, what follows the version that it has:\n" +
	"-- SELECT max(version_id) FROM outrider_migrations\n"

// serverState is state in a database on a server, which opening it does not create.
func serverState(location string, open func(context.Context) (adapters.OperatorStore, error), initSQL func() (string, error), grants func(Grantees) string) StateKind {
	return StateKind{
		Key: location, Exists: func() error { return nil }, Open: open,
		InitSQL: func(to Grantees) (string, error) {
			text, err := initSQL()
			if err != nil {
				return "", err
			}
			return newStateInit + text + "\n" + grants(to), nil
		},
	}
}

// queueFeed is a queue with the settings of its source.
func queueFeed(t *config.TableSource, tables int, queue interface {
	adapters.OperatorQueue
	SetBatch(rows int)
}) Feed {
	f := Feed{Queue: queue, poll: t.Poll, claims: claimsOf(t.Claims), tables: tables, batch: queue.SetBatch}
	if preset := t.Preset(); preset != nil {
		f.together = preset.Defaults.Together
	}
	return f
}

// queueOf is the layout of a queue, and its tables: those of a preset, or the one that the configuration describes. Rows are deleted when
// they are delivered, or when they are old.
func queueOf(t *config.TableSource, old bool) (of layout.Queue, tables []layout.Table) {
	if preset := t.Preset(); preset != nil {
		of, tables = *preset.Queue, slices.Clone(preset.Queue.Tables)
		for i := range tables {
			if len(tables) == 1 {
				tables[i].Name = string(t.Table)
			} else {
				tables[i].Name = t.Tables.Of(tables[i])
			}
		}
		of.DoneIsDeleted, of.OldIsDeleted = t.Deletes(), old
		return of, tables
	}
	q := t.Queue
	return layout.Queue{
		Columns: layout.Columns{
			Key: q.Key, Type: q.Type, Payload: q.Payload, Status: q.Status, Created: q.Created, Claimed: q.Claimed,
			Group: q.Group, Attempts: q.Attempts, NextAttempt: q.NextAttempt, Done: q.Done, Error: q.Error,
			AggregateType: q.AggregateType, AggregateID: q.AggregateID, Tenant: q.Tenant, Headers: q.Headers,
		},
		Statuses:     layout.Statuses(q.Statuses),
		DefaultGroup: q.DefaultGroup, TypeInPayload: q.TypeInPayload, DoneIsDeleted: t.Deletes(), OldIsDeleted: old,
	}, []layout.Table{{Name: string(t.Table)}}
}
