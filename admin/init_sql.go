package admin

import (
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

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

// InitWakeSQL returns, per source with `wake: notify`, the statements for
// also create triggers, so that every INSERT wakes the relay.
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
