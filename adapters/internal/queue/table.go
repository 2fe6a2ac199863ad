package queue

import (
	"cmp"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

// Table is a table of a queue, with what its statements and its claims depend on. A database's table embeds it.
type Table struct {
	layout.Table
	Layout *layout.Queue // columns that the table may lack included
	MaxRow int64         // bytes of payload that are read
	Marks  bool          // it has a status for rows that are being processed
}

// NewTable returns a table of a layout. maxRow 0: [adapters.DefaultMaxRow].
func NewTable(of layout.Table, l *layout.Queue, maxRow int64) Table {
	return Table{of, l, cmp.Or(maxRow, adapters.DefaultMaxRow), !l.Claimless()}
}
