package assembly

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/logtable"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/config"
)

// progressSQL are the grants for the routes of a source that have progress; empty: none has.
func (t postgresTable) progressSQL(to Grantees) string {
	for i := range t.Config.Routes {
		if r := &t.Config.Routes[i]; r.From == t.name && r.Progress != nil {
			return "-- The table of progress (progress: {...} of routes):\n" +
				statestore.ProgressGrants(t.Config.State.Schema.Exact(), string(t.Progress)).SQL(to)
		}
	}
	return ""
}

// KeepProgress has the state stores keep the rows of the routes that have progress, in the name of an instance. It returns the
// stores that keep any.
func (b *Builder) KeepProgress(p *Parts, instance string) (stores []adapters.ProgressStore) {
	rows := map[adapters.ProgressStore][]adapters.ProgressRow{}
	for _, r := range b.Config.Routes {
		src, ok := b.Config.Sources[r.From].(*config.Postgres)
		if r.Progress == nil || !ok {
			continue
		}
		k, err := b.StateOf(r.From)
		if err != nil {
			continue // the route was not built
		}
		s, ok := p.States[k.Key].(adapters.ProgressStore)
		if !ok {
			continue // see checkProgress
		}
		if rows[s] == nil {
			stores = append(stores, s)
		}
		rows[s] = append(rows[s], adapters.ProgressRow{Route: r.Name, Table: string(src.Progress), Topic: r.Progress.Topic, Publisher: r.Progress.Publisher})
	}
	for _, s := range stores {
		s.KeepProgress(instance, rows[s])
	}
	return stores
}

// checkProgress makes sure that the rows of routes with progress can be kept where the cursors are.
func (b *Builder) checkProgress(ctx context.Context, p *Parts) error {
	var errs []error
	for _, r := range b.Config.Routes {
		if src, ok := b.Config.Sources[r.From].(*config.Postgres); ok && r.Progress != nil {
			if err := b.progressPossible(r.From, src); err != nil {
				errs = append(errs, fmt.Errorf("route %q: progress: %w", r.Name, err))
			}
		}
	}
	for _, s := range b.KeepProgress(p, b.Options.Instance) {
		errs = append(errs, s.CheckProgress(ctx))
	}
	return errors.Join(errs...)
}

// errProgressElsewhere is the error for state in another database than the table of progress.
var errProgressElsewhere = errors.New("its row is written in the transaction that writes the route's cursor, and the state is in another database than the source: " +
	"remove `state: {url: ...}`, or remove progress")

func (b *Builder) progressPossible(source string, src *config.Postgres) error {
	location, err := b.stateLocation(source)
	if err != nil {
		return err
	}
	if !postgresDatabase.owns(location) {
		return errProgressElsewhere
	}
	from, err := b.Options.toSource(source, src)
	if err != nil {
		return err
	}
	to, err := b.Options.toState(b.Config, location)
	if err != nil {
		return err
	}
	if same, err := sameDatabase(from, to); err != nil || !same {
		return errors.Join(err, errProgressElsewhere)
	}
	return nil
}

// progressTable opens the table of progress as operators see it.
func (t postgresTable) progressTable(ctx context.Context) (adapters.ProgressTable, error) {
	to, err := t.Options.toSource(t.name, t.Postgres)
	if err != nil {
		return nil, err
	}
	return logtable.OpenProgress(ctx, logtable.ProgressConfig{URL: to.url, TLS: to.tls, Config: to.config, Table: string(t.Progress), Events: string(t.Table)})
}
