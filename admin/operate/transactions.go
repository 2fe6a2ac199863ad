package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
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
		if _, not := errors.AsType[Refusal](err); not && source == "" {
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

// ender returns the part of a source that ends transactions.
func (op *Operator) ender(ctx context.Context, source string) (adapters.TransactionLister, error) {
	section, ok := op.build.Config.Sources[source]
	if !ok {
		return nil, &UnknownSource{source, assembly.SortedNames(op.build.Config.Sources)}
	}
	f, err := op.Open(ctx, source)
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

// openTransactions is the finding about those of a source.
type openTransactions struct {
	at        time.Time
	text, fix string
	id        string // of the one that the text names; empty: it cannot be ended from here
}

// longTransactions asks a route's source for transactions that have been open for long.
func (op *Operator) longTransactions(ctx context.Context, route string) openTransactions {
	o := openTransactions{at: time.Now()}
	f, _, err := op.reading(ctx, route)
	if err != nil {
		return o
	}
	examiner, ok := f.Source.(adapters.TransactionLister)
	if f.Queue != nil {
		examiner, ok = f.Queue.(adapters.TransactionLister)
	}
	if !ok {
		return o
	}
	findings := examiner.ExamineOpen(ctx)
	if i := slices.IndexFunc(findings, func(f adapters.Finding) bool { return f.Level >= adapters.LevelWarning }); i >= 0 {
		o.text, o.fix, o.id = findings[i].Text, cmp.Or(findings[i].Fix, "end the transaction"), findings[i].Transaction
	}
	return o
}

// addTransactions adds to routes the transaction that keeps rows of their source from being visible.
func (op *Operator) addTransactions(ctx context.Context, l *Samples, rows []status.RouteStatus) {
	if l.transactions == nil {
		l.transactions = map[string]openTransactions{}
	}
	from := map[string]string{}
	for _, r := range op.build.Config.Routes {
		from[r.Name] = r.From
	}
	for i := range rows {
		r := &rows[i]
		source := from[r.Route]
		if source == "" || r.SourceError != "" || r.State == status.StateStopped {
			continue
		}
		o, ok := l.transactions[source]
		age := transactionsAge
		if o.text != "" {
			age = sampleAge // it may have been ended just now
		}
		if !ok || time.Since(o.at) > age {
			o = op.longTransactions(ctx, r.Route)
			l.transactions[source] = o
		}
		r.LongTransaction, r.LongTransactionFix, r.LongTransactionID = o.text, o.fix, o.id
	}
}

// transactionsAge is how often a source is examined for long transactions.
const transactionsAge = 30 * time.Second

// Record writes to the audit log what was done outside of the state stores.
func (op *Operator) Record(ctx context.Context, by, action string, changed int, about ...string) error {
	return recordIn(ctx, op.stores[0], by, action, changed, about...)
}

// recordIn writes one audit record, also when ctx has ended. What it is about has been done: the error says so.
func recordIn(ctx context.Context, s adapters.OperatorStore, by, action string, changed int, about ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	if err := s.WriteAudit(ctx, by, action, changed, about...); err != nil {
		return fmt.Errorf("%s: done, and not audited: %w", action, err)
	}
	return nil
}

// recordTime bounds the time for an audit record of something that has been done.
const recordTime = 5 * time.Second
