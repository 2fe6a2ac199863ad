package assembly

import (
	"context"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/adapters/mysql/statestore"
	"github.com/outriderhq/outrider/config"
)

// mysqlState is what can be done with a state store in MariaDB or MySQL, where the
// location is a URL of one.
func mysqlState(b *Builder, location string) (k StateKind, mine bool) {
	if !strings.HasPrefix(location, "mysql://") && !strings.HasPrefix(location, "mariadb://") {
		return k, false
	}
	return StateKind{
		Key:    location,
		Exists: func() error { return nil }, // opening creates no database
		Open: func(ctx context.Context) (adapters.OperatorStore, error) {
			security, err := mysqlStateTLS(b.Config, location)
			if err != nil {
				return nil, err
			}
			return statestore.New(ctx, statestore.Config{URL: location, TLS: security, Logger: b.log})
		},
		InitSQL: func(to Grantees) (string, error) {
			text, err := statestore.InitSQL()
			if err != nil {
				return "", err
			}
			return "-- All of it for a new installation; to upgrade, what follows the version that it has:\n" +
				"-- SELECT max(version_id) FROM outrider_migrations\n" + text + "\n" + statestore.Grants().SQL(to.Relay, to.Operator, to.Publisher), nil
		},
	}, true
}

// mysqlTLS says how connections to a database of MariaDB or MySQL are
// encrypted; where the section says nothing, the URL decides.
func mysqlTLS(t config.TLS) (mysql.TLS, error) {
	c, err := newTLS(t, t.On())
	return mysql.TLS{Config: c, Off: t.Off()}, err
}

// mysqlStateTLS is that of the state store at a location: its own, or that of the source that it is beside.
func mysqlStateTLS(cfg *config.Config, location string) (mysql.TLS, error) {
	if !cfg.State.URL.IsZero() {
		return mysqlTLS(cfg.State.TLS)
	}
	for _, name := range SortedNames(cfg.Sources) {
		if s, ok := cfg.Sources[name].(*config.MySQL); ok && s.URL.Reveal() == location {
			return mysqlTLS(s.TLS)
		}
	}
	return mysql.TLS{}, nil
}
