package outrider

import (
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/config"
)

// Grantees are the database roles that printed statements grant to. Where a name is
// empty, the grants are comments, to a role of the usual name.
type Grantees = postgres.Grantees

// InitSQL returns, per source, the statements that create its outbox table: table and
// indexes, and the grants that roles need.
func InitSQL(cfg *Config, to Grantees) map[string]string {
	out := map[string]string{}
	for name, src := range cfg.Sources {
		switch s := src.(type) {
		case *config.Postgres:
			out[name] = postgresInitSQL(s, to)
		case *config.SQLite:
			out[name] = sqliteInitSQL(s)
		}
	}
	return out
}

// InitStateSQL returns the statements that create the state tables or bring them up
// to date, and the grants that roles need, by place: "state", or "state beside
// source NAME" for each source that has its own.
func InitStateSQL(cfg *Config, to Grantees) (map[string]string, error) {
	out := map[string]string{}
	seen := map[string]bool{}
	for _, r := range cfg.Routes {
		location, err := stateLocation(cfg, cfg.Sources[r.From])
		if err != nil {
			return nil, err
		}
		key := stateKey(location)
		if seen[key] {
			continue
		}
		seen[key] = true
		place := "state"
		if cfg.State.URL.IsZero() {
			place += " beside source " + r.From
		}
		if !inPostgres(location) {
			out[place] = "-- Nothing: `outrider init` or `outrider run` creates the tables in the SQLite file, which has no roles.\n"
			continue
		}
		schema := cfg.State.Schema.Exact()
		text, err := statestore.InitSQL(schema)
		if err != nil {
			return nil, err
		}
		out[place] = "-- All of it for a new installation; to upgrade, what follows the version that it has:\n" +
			"-- SELECT max(version_id) FROM outrider_migrations\n" + text + "\n" + statestore.Grants(schema).SQL(to)
	}
	return out, nil
}
