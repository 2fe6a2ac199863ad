package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// The values of -postgres that are no major version.
const (
	packagedPostgres = "distribution" // the one that is installed, with its own settings
	givenPostgres    = "given"        // the one that the environment names
)

// usualPostgres is the version whose figures are published first.
const usualPostgres = "18"

// startPostgres starts the server that -postgres asks for, and returns nil for a given one. Its commits wait for the
// disk, as in production.
func startPostgres(ctx context.Context, which string, say func(format string, args ...any)) (*server.Postgres, error) {
	// Every scenario has databases of its own, whose statements must not push each other out of the counters.
	opts := server.PostgresOptions{Durable: true, Logical: true, Settings: []string{"pg_stat_statements.max = 20000"}}
	host := provision.Host{Install: true, Say: say}
	var err error
	switch which {
	case givenPostgres:
		return nil, nil //nolint:nilnil // there is none to start
	case packagedPostgres:
		opts.Bin, err = host.Postgres(ctx)
	default:
		major, _ := strconv.Atoi(which) // checkPostgres has done it
		opts.Settings = append(opts.Settings, "shared_buffers = '1GB'")
		opts.Bin, err = host.PostgresMajor(ctx, major)
	}
	if err != nil {
		return nil, err
	}
	return server.StartPostgres(ctx, opts)
}

// checkPostgres checks the value of -postgres. Only what the page has sections for can be written.
func checkPostgres(which string, write bool) error {
	if _, err := strconv.Atoi(which); err != nil && which != packagedPostgres && which != givenPostgres {
		return fmt.Errorf("-postgres %s: must be a major version such as %s, %s or %s", which, usualPostgres, packagedPostgres, givenPostgres)
	}
	if write && which != usualPostgres && which != packagedPostgres {
		return fmt.Errorf("-write -postgres %s: %s has sections for %s and %s only", which, docsFile, usualPostgres, packagedPostgres)
	}
	return nil
}
