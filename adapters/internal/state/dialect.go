package state

import (
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// Dialect is where the statements of operators differ between databases. Templates are those of [sqltext].
type Dialect struct {
	sqltext.Dialect // its Value turns times into what a column keeps

	// Names have, for all templates:
	//
	//	now     the database's clock, as a column keeps times
	//	by      the column of that name
	//	text    the type in CAST(... AS ...) of texts
	//	alive   condition that an instance i lives, as [adapters.Instance] has it
	//	flows   condition that a parked message is not dead, for an index
	//	beyond  c.beyond as a JSON array
	//	cursors the cursor rows with their progress
	//	role    database role of an audit record
	//	json    end of a text that becomes a JSON column
	//	lock    end of a SELECT that locks its rows; empty: there is one writer
	Names sqltext.Names

	Micros func(column string) string // a column of times as microseconds since 1970; nil: it is that
	Later  string                     // the clock, and as many microseconds as ? says

	InGroup    string // further condition that finds a group, for which ? stands, by an index; empty: none is needed
	CountLanes string // parked messages by route and slot: retrying, waiting, held, dead; a lane may have several rows

	OfGroup      func(packed string) (condition string, args []any)             // that a parked message is of a group; "": of none
	ParkedGroups func(route string, slots []int) (text string, args []any)      // slot, group, messages, first seq, its status, when it is due and was parked
	Pause        func(route, address, group, reason, by string) (string, []any) // writes a pause unless there is one
	PauseOf      func(address string) (condition string, args []any)            // that a pause is of an address
	RouteTables  []string                                                       // further tables with rows of a route

	AuditTime     bool // an audit record is given its time; otherwise the table has it by default
	OwnClock      bool // operations begin by this host's clock, by which messages are parked: that of SQL is coarser
	AliveOnce     bool // whether an instance lives is asked once for each, not for each of its lanes
	RowOrder      bool // a comparison of rows, (a, b) > (c, d), uses an index
	OrderedUpdate bool // an UPDATE locks rows in the order of its ORDER BY; otherwise a subquery locks them before
	SkipScan      bool // recursive queries and correlated subqueries skip from one value of an index to the next; otherwise DISTINCT does
	Unnamed       bool // there may be messages of versions that did not name failures
}

// inOrder is the end of an UPDATE of cursors, which locks rows as a settle locks them.
func (d *Dialect) inOrder() string {
	if d.OrderedUpdate {
		return " ORDER BY route, slot"
	}
	return ""
}

// micros is a column of times as microseconds since 1970.
func (d *Dialect) micros(column string) string {
	if d.Micros == nil {
		return column
	}
	return d.Micros(column)
}

// known is the same; 0 for NULL.
func (d *Dialect) known(column string) string { return "coalesce(" + d.micros(column) + ", 0)" }

// AsMicros is the Value of a database that keeps times as microseconds since 1970.
func AsMicros(v any) any {
	if at, is := v.(time.Time); is {
		return at.UnixMicro()
	}
	return v
}

// instant is a time of so many microseconds; 0: none.
func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// List is a list behind IN of as many parameters as there are values, and these.
func List[T any](values []T) (list string, args []any) {
	for _, v := range values {
		args = append(args, v)
	}
	return "(" + strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ") + ")", args
}
