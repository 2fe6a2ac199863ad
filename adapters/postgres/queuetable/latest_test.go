package queuetable

import (
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Rows that have come at the time of another one are read from the first of them on while more may come, and after that from the last.
func TestG8_OldRowsOfOneTimeAreReadOnce(t *testing.T) {
	t.Parallel()
	at := func(ago time.Duration, key string) position {
		return position{created: time.Now().Add(-ago).UnixMicro() - wire.PostgresEpoch, key: key, set: true}
	}
	old, fresh := at(time.Hour, "a"), at(time.Second, "a")
	for name, test := range map[string]struct{ a, b, want position }{
		"nothing":            {position{}, position{}, position{}},
		"the first":          {position{}, old, old},
		"nothing more":       {old, position{}, old},
		"a later one":        {old, fresh, fresh},
		"an earlier one":     {fresh, old, fresh},
		"of one time, fresh": {fresh, position{fresh.created, "b", true}, fresh},
		"of one time, old":   {old, position{old.created, "b", true}, position{old.created, "b", true}},
	} {
		if got := latest(test.a, test.b); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
