package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Transaction is a transaction that has been open so long that rows of a source wait for it.
type Transaction struct {
	ID          string    `json:"id" doc:"Of this very transaction: no later one has it."`
	Source      string    `json:"source"`
	Process     int       `json:"process" doc:"Of the database server."`
	Application string    `json:"application,omitempty"`
	User        string    `json:"user"`
	Client      string    `json:"client,omitempty" doc:"Its address."`
	State       string    `json:"state" doc:"Of its session, such as idle in transaction."`
	Statement   string    `json:"statement,omitempty" doc:"Begin of the statement that runs, or of the latest one; quoted values are masked."`
	Since       time.Time `json:"since"`
	OpenSeconds float64   `json:"open_seconds"`
}

// Transactions returns the transactions of a source (empty: of all that can say) that have been open for long and can
// be ended, the longest first.
func (op *Operator) Transactions(ctx context.Context, source string) ([]Transaction, error) {
	sources := []string{source}
	if source == "" {
		sources = assembly.SortedNames(op.build.Config.Sources)
	}
	out, failed := []Transaction{}, []error{}
	for _, name := range sources {
		ender, err := op.ender(ctx, name)
		if _, not := errors.AsType[refusal](err); not && source == "" {
			continue
		}
		var found []adapters.OpenTransaction
		if err == nil {
			found, err = ender.OpenTransactions(ctx)
		}
		if err != nil { // other sources may have what is looked for
			failed = append(failed, err)
		}
		for _, t := range found {
			if slices.ContainsFunc(out, func(o Transaction) bool { return o.ID == t.ID }) {
				continue // sources of one database
			}
			out = append(out, Transaction{ID: t.ID, Source: name, Process: t.Process, Application: t.Application, User: t.User, Client: t.Client,
				State: t.State, Statement: t.Statement, Since: t.Since, OpenSeconds: t.Open.Seconds()})
		}
	}
	slices.SortStableFunc(out, func(a, b Transaction) int { return a.Since.Compare(b.Since) })
	return out, errors.Join(failed...)
}

// EndTransaction rolls back one of [Operator.Transactions] by ending its session, and returns it. It returns nil, and
// changes nothing, if that very transaction has ended already.
func (op *Operator) EndTransaction(ctx context.Context, source, id, by string) (*Transaction, error) {
	open, err := op.Transactions(ctx, source)
	i := slices.IndexFunc(open, func(t Transaction) bool { return t.ID == id })
	if i < 0 {
		return nil, err
	}
	t := &open[i]
	ender, err := op.ender(ctx, t.Source)
	if err != nil {
		return nil, err
	}
	if ended, err := ender.EndTransaction(ctx, id); err != nil || !ended {
		return nil, err
	}
	return t, op.record(ctx, t.Source, by, "end transaction", 1, "source", t.Source, "process", strconv.Itoa(t.Process),
		"application", t.Application, "user", t.User, "client", t.Client, "since", t.Since.UTC().Format(time.RFC3339))
}

// ender is what can end transactions of a source.
func (op *Operator) ender(ctx context.Context, source string) (adapters.TransactionLister, error) {
	section, ok := op.build.Config.Sources[source]
	if !ok {
		return nil, &unknownSource{source, assembly.SortedNames(op.build.Config.Sources)}
	}
	f, err := op.open(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("source %q: %w", source, err)
	}
	ender, ok := f.Source.(adapters.TransactionLister)
	if f.Queue != nil {
		ender, ok = f.Queue.(adapters.TransactionLister)
	}
	if !ok {
		return nil, refused("source %q: ending transactions is not supported by a source of the type %s", source, section.Kind())
	}
	return ender, nil
}

// record writes to the audit log of a source's state store what was done outside of it.
func (op *Operator) record(ctx context.Context, source, by, action string, changed int, about ...string) error {
	k, err := op.build.StateOf(source)
	if err != nil {
		return err
	}
	return recordIn(ctx, op.parts.States[k.Key], by, action, changed, about...)
}

// recordIn writes one audit record. What it is about has been done: the error says so.
func recordIn(ctx context.Context, s adapters.OperatorStore, by, action string, changed int, about ...string) error {
	if err := s.WriteAudit(ctx, by, action, changed, about...); err != nil {
		return fmt.Errorf("%s: done, and not audited: %w", action, err)
	}
	return nil
}
