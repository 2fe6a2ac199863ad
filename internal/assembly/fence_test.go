package assembly

import (
	"log/slog"
	"testing"

	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/config"
)

// A queue without claims asks for the epochs of its lanes where the state store is in its database, and only there.
func TestG2_TheFenceOfAClaimlessQueueIsTheStateStoreOfItsDatabase(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]queuetable.Fence{
		"": {Here: true},
		`state: {url: "postgres://other@127.0.0.1/db", schema: relay}`: {Here: true, Schema: "relay"},
		`state: {url: "postgres://app@127.0.0.1/elsewhere"}`:           {},
		`state: {url: "postgres://app@127.0.0.1:5433/db"}`:             {},
		`state: {url: /tmp/state.db}`:                                  {},
	} {
		cfg, err := config.Parse("t", []byte(state+`
sources:
  app: {type: postgres, layout: outbox-framework, url: "postgres://app@127.0.0.1/db"}
destinations:
  out: {type: log}
routes:
  a: {from: app, to: out}
`), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		source := cfg.Sources["app"].(*config.Postgres)
		table := postgresTable{site{NewBuilder(cfg, Options{Logger: slog.Default()}), "app"}, source}
		to, err := table.Options.toSource("app", source)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := table.fence(to); err != nil || got != want {
			t.Errorf("%q: the fence is %+v, %v; want %+v", state, got, err, want)
		}
	}
}
