package outrider

import (
	"context"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/logtable"
	"github.com/outriderhq/outrider/config"
)

// Wake lets the relay look for new rows of a source at once, instead of after
// its next pause. Call it after the commit when the relay is embedded in the
// process that publishes; before, there is nothing to see. It waits for nothing,
// calls of a moment count as one, and it is of no use, and does no harm, when
// another instance owns the message's lane, when the relay does not run or when
// there is no such source.
func (o *Outrider) Wake(source string) {
	work := o.shift.Load()
	if work == nil {
		return
	}
	if s := work.parts.sources[source]; s != nil {
		work.router.Wake(s)
	}
	if q := work.parts.queues[source]; q != nil {
		work.router.Wake(q)
	}
}

// InitWakeSQL returns, per source with `wake: notify`, the statements for
// triggers by which every INSERT wakes the relay.
func InitWakeSQL(cfg *Config) map[string]string {
	out := map[string]string{}
	for name, src := range cfg.Sources {
		if s, ok := src.(*config.Postgres); ok && s.Notified() {
			tables, err := wakeTables(s)
			if err != nil {
				out[name] = "-- " + strings.Join(strings.Fields(err.Error()), " ") + "\n" // not from a configuration that was checked
				continue
			}
			out[name] = postgres.InitWakeSQL(tables...)
		}
	}
	return out
}

// InitWake creates these triggers where they are missing; the tables must exist.
// It returns what it did, a sentence each.
func InitWake(ctx context.Context, cfg *Config, opts ...Option) ([]string, error) {
	o := optionsOf(opts)
	var done []string
	for _, name := range sortedNames(cfg.Sources) {
		s, ok := cfg.Sources[name].(*config.Postgres)
		if !ok || !s.Notified() {
			continue
		}
		did, err := initWake(ctx, &o, name, s)
		for _, d := range did {
			done = append(done, fmt.Sprintf("source %s: %s", name, d))
		}
		if err != nil {
			return done, fmt.Errorf("source %q: %w", name, err)
		}
	}
	return done, nil
}

func initWake(ctx context.Context, o *options, name string, s *config.Postgres) ([]string, error) {
	tables, err := wakeTables(s)
	if err != nil {
		return nil, err
	}
	pool, err := o.openPostgres(ctx, name, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return postgres.InitWake(ctx, pool, tables...)
}

// wakeTables are the tables of a source, as in SQL.
func wakeTables(s *config.Postgres) (tables []string, err error) {
	switch {
	case s.Queued():
		for _, t := range queueConfig(s).Tables {
			tables = append(tables, t.Name)
		}
		return tables, nil
	case s.Layout == "outrider":
		return []string{string(s.Table)}, nil
	}
	name, err := logtable.Name(logTable(s))
	return []string{name}, err
}
