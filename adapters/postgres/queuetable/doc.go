// Package queuetable claims and settles rows of tables that carry a status:
// FlowCatalyst's, and those that a [Layout] describes.
//
// A claim is a short statement, and settling is done in batches, so other processors
// can work on the same tables. groups.go says how a claim finds work; the
// statements are built, without I/O, in text.go, sql.go, write_sql.go, remember_sql.go and
// indexes.go, which refer to nothing else of the package. A [Queue] remembers
// its claims until they are settled.
//
// The package decides no order between groups, retries nothing and delivers nothing;
// package router does.
package queuetable

import (
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wake"
)

// TLS says how connections by URL are encrypted. The zero value is safe.
type TLS = pg.TLS

// Wake is how a queue notices new rows: "poll", the default, or "notify".
type Wake = wake.Mode
