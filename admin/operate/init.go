package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Init creates the outbox tables of all sources, and the state tables, where
// they do not exist. It returns what it did, a sentence each.
func Init(ctx context.Context, cfg *config.Config, opts ...Option) ([]string, error) {
	b := assembly.NewBuilder(cfg, assembly.OptionsOf(opts))
	if err := errors.Join(b.Options.CheckPools(cfg)...); err != nil {
		return nil, err
	}
	done, err := eachSource(b, func(name string) ([]string, error) {
		if k := b.Source(name); k.Init != nil {
			return k.Init(ctx)
		}
		return nil, nil
	})
	if err != nil {
		return done, err
	}
	op, err := Connect(ctx, b)
	if err != nil {
		return done, err
	}
	for _, s := range op.stores {
		did, err := migrate(ctx, s)
		if err != nil {
			return done, errors.Join(fmt.Errorf("state tables: %w", err), op.Close())
		}
		if !slices.Contains(done, did) {
			done = append(done, did)
		}
	}
	return done, op.Close()
}

// InitAdds says, a sentence each, what [Init] will add to tables that applications have created, where that is more than indexes.
func InitAdds(ctx context.Context, cfg *config.Config, opts ...Option) ([]string, error) {
	b := assembly.NewBuilder(cfg, assembly.OptionsOf(opts))
	return eachSource(b, func(name string) ([]string, error) {
		if k := b.Source(name); k.Adds != nil {
			return k.Adds(ctx)
		}
		return nil, nil
	})
}

// migrate creates or upgrades the tables of a state store, and returns what it did.
func migrate(ctx context.Context, s adapters.OperatorStore) (string, error) {
	former, newest, err := s.StateVersion(ctx)
	if err != nil {
		return "", err
	}
	if err := s.Migrate(ctx); err != nil {
		return "", err
	}
	switch {
	case former == 0:
		return "created the state tables", nil
	case former < newest:
		return fmt.Sprintf("upgraded the state tables from version %d to %d", former, newest), nil
	}
	return "state tables exist and are up to date", nil
}

// InitIndexes creates the indexes that reading needs on the tables of other
// systems (all layouts but outrider) where they are missing, without stopping
// writers. say is called before each, which may take minutes; nil: never. It returns
// what it did, a sentence each.
func InitIndexes(ctx context.Context, cfg *config.Config, say func(string), opts ...Option) ([]string, error) {
	b := assembly.NewBuilder(cfg, assembly.OptionsOf(opts))
	if say == nil {
		say = func(string) {}
	}
	return eachSource(b, func(name string) ([]string, error) {
		if k := b.Source(name); k.Indexes != nil {
			return k.Indexes(ctx, func(text string) { say("source " + name + ": " + text) })
		}
		return nil, nil
	})
}

// InitWake creates triggers, so that every INSERT wakes the relay, for sources with `wake: notify` or
// `auto`, where they are missing; the tables must exist. It returns what it did, a sentence each.
func InitWake(ctx context.Context, cfg *config.Config, opts ...Option) ([]string, error) {
	b := assembly.NewBuilder(cfg, assembly.OptionsOf(opts))
	return eachSource(b, func(name string) ([]string, error) {
		if k := b.Source(name); k.Wake != nil {
			return k.Wake(ctx)
		}
		return nil, nil
	})
}

// eachSource does something for each source, and returns what was done up to the
// first error, a sentence each.
func eachSource(b *assembly.Builder, do func(name string) ([]string, error)) (done []string, err error) {
	for _, name := range assembly.SortedNames(b.Config.Sources) {
		did, err := do(name)
		for _, d := range did {
			done = append(done, fmt.Sprintf("source %s: %s", name, d))
		}
		if err != nil {
			return done, fmt.Errorf("source %q: %w", name, err)
		}
	}
	return done, nil
}

// Grantees are the database roles that printed statements grant to. Where a name is
// empty, the grants are comments, to a role of the usual name.
type Grantees = assembly.Grantees

// InitSQL returns, per source, the statements that create its outbox table: table and
// indexes, and the grants that roles need.
func InitSQL(cfg *config.Config, to Grantees) map[string]string {
	out, b := map[string]string{}, assembly.NewBuilder(cfg, assembly.OptionsOf(nil))
	for name := range cfg.Sources {
		if k := b.Source(name); k.InitSQL != nil {
			out[name] = k.InitSQL(to)
		}
	}
	return out
}

// InitWakeSQL returns, per source with `wake: notify` or `auto`, the statements that create triggers, so
// that every INSERT wakes the relay.
func InitWakeSQL(cfg *config.Config) map[string]string {
	out, b := map[string]string{}, assembly.NewBuilder(cfg, assembly.OptionsOf(nil))
	for name := range cfg.Sources {
		if k := b.Source(name); k.WakeSQL != nil {
			out[name] = k.WakeSQL()
		}
	}
	return out
}

// InitStateSQL returns the statements that create the state tables or bring them up
// to date, and the grants that roles need, by place: "state", or "state beside
// source NAME" for each source that has its own.
func InitStateSQL(cfg *config.Config, to Grantees) (map[string]string, error) {
	out, b := map[string]string{}, assembly.NewBuilder(cfg, assembly.OptionsOf(nil))
	seen := map[string]bool{}
	for _, r := range cfg.Routes {
		k, err := b.StateOf(r.From)
		if err != nil {
			return nil, err
		}
		if seen[k.Key] {
			continue
		}
		seen[k.Key] = true
		place := "state"
		if cfg.State.URL.IsZero() {
			place += " beside source " + r.From
		}
		if out[place], err = k.InitSQL(to); err != nil {
			return nil, err
		}
	}
	return out, nil
}
