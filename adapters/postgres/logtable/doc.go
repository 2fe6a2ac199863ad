// Package logtable reads append-only tables that are not in Outrider's own layout: a
// Watermill topic, or a table that [Columns] describes. It creates nothing but
// indexes, and these only by [InitIndexes], and in a layout that is captured (package layout) two columns, by [Init].
//
// The rows name their transactions, so cursors are those of package postgres. They have
// no slots: one scan reads for all lanes (plan.go), and each read takes from it
// what its own snapshot allows (fetch.go).
package logtable

import (
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wake"
)

// TLS says how connections by URL are encrypted. The zero value is safe.
type TLS = pg.TLS

// Wake is how a source notices new rows: "poll", the default, or "notify".
type Wake = wake.Mode
