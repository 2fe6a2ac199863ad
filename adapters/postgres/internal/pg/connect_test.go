package pg

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Whoever takes connections and never answers must not be waited for without end:
// every connection has a limit, the URL's or ours.
func TestConnectionsHaveALimitForOpening(t *testing.T) {
	t.Parallel()
	const url = "postgres://me@127.0.0.1:1/db"
	given, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Connection
		want time.Duration
	}{
		"a URL without":         {Connection{URL: url}, connectLimit},
		"a URL with its own":    {Connection{URL: url + "?connect_timeout=3"}, 3 * time.Second},
		"a pool's, without":     {Connection{Config: given}, connectLimit},
		"that of a longer wait": {Connection{URL: url + "?connect_timeout=300"}, 5 * time.Minute},
	} {
		pc, err := c.cfg.PoolConfig()
		if err != nil {
			t.Fatal(err)
		}
		if got := pc.ConnConfig.ConnectTimeout; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if given.ConnConfig.ConnectTimeout != 0 {
		t.Error("the caller's configuration was changed")
	}
}
