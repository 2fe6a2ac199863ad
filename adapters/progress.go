package adapters

import (
	"context"
	"time"
)

// ProgressStore is a [StateStore] that keeps rows of another system's table of progress next to the cursors of routes, in its own
// database. Each settle that concerns such a route writes its row in the same transaction, from what that transaction has
// written of cursors and parked messages: so the row is never ahead of what was delivered, and what it says of
// a failed message is what the parking says.
//
// The cursors are the truth. The store remembers what it has written of a row; what is different there was
// written by others, stays as it is, and is for [ProgressStore] Follow and MoveProgress to carry out.
type ProgressStore interface {
	StateStore

	// KeepProgress says which rows there are, in place of what it said before, and in whose name they are written. Without a
	// name the caller only reads them, and changes nothing where rows are kept already.
	KeepProgress(instance string, rows []ProgressRow)

	// CheckProgress returns an error that names what is wrong with the tables of the rows, and the fix.
	CheckProgress(ctx context.Context) error

	// Progress reads the rows of some routes, or of all when none is named, in the order in which KeepProgress has them. Those that do
	// not exist are left out.
	Progress(ctx context.Context, routes ...string) ([]Progress, error)

	// FollowProgress returns, of all rows, those of which something is to be carried out or written: the position or the status is not
	// what was agreed, or the status not what follows from pauses and parked messages. Rows that do not exist are inserted at
	// position 0.
	FollowProgress(ctx context.Context) ([]Progress, error)

	// RegisterProgress inserts rows that do not exist, at position 0.
	RegisterProgress(ctx context.Context) error

	// AgreePositions notes that the positions of rows are carried out, by route. A row that has another one by now is left out.
	AgreePositions(ctx context.Context, positions map[string]int64) error

	// AgreeStatus carries out a status that others have written into the row of a route, and notes that. It does both or, when the row has
	// another status by now or this one is carried out, nothing, and returns an error.
	AgreeStatus(ctx context.Context, route, status string) error

	// MoveProgress moves the cursors of a route because others have written another position, which is noted as carried
	// out, and removes the route's parked messages that are not dead: they are before the position, or come again. False: the row has yet
	// another position by now, or this one is carried out, and nothing was done.
	MoveProgress(ctx context.Context, m Move, position int64) (bool, error)

	// WriteProgress writes the rows of routes from what is settled, as a settle does; routes that the store knows to have been left
	// out by the last settle, because the row was locked, are added. With alive it also writes a sign of life into the rows of those
	// lanes that the instance owns.
	WriteProgress(ctx context.Context, routes []string, alive bool) error
}

// The statuses of a [Progress].
const (
	ProgressActive = "ACTIVE"
	ProgressPaused = "PAUSED"
	ProgressFailed = "FAILED"
)

// ProgressRow names a row of a table of progress.
type ProgressRow struct {
	Route     string
	Table     string // as in SQL
	Topic     string
	Publisher string
}

// Progress is a row of a table of progress, and what the state store knows of its route.
type Progress struct {
	ProgressRow

	Status      string
	Position    int64     // everything visible at or below it is delivered
	PublishedAt time.Time // when a message was delivered last; zero: never
	Errors      int       // failed attempts of the message that holds the route up
	LastError   string    // of it
	UpdatedAt   time.Time

	Leader      string // instance that wrote last
	LeaderSince time.Time
	Heartbeat   time.Time

	Agreed       int64  // the position that we have written, or carried out; below 0: none yet
	AgreedStatus string // likewise
	Own          string // the status that follows from our pauses and parked messages
	Placed       bool   // the route has cursors
	Owner        string // instance that owns them; empty: none
}

// Moved reports whether others have written another position.
func (p *Progress) Moved() bool { return p.Agreed >= 0 && p.Position != p.Agreed }

// Ordered reports whether others have written another status.
func (p *Progress) Ordered() bool { return p.Status != p.AgreedStatus }

// ProgressTable is another system's table of progress as that system's operators see it: all of its rows, whoever works them. What
// they write there running relays carry out, see [ProgressStore].
type ProgressTable interface {
	// Rows returns the rows of a topic by publisher; of an empty topic all, by topic and publisher. Fields that only a state store knows are zero.
	Rows(ctx context.Context, topic string) ([]Progress, error)

	// Order writes a status into a row and, with reset, that no attempt has failed. It reports whether there is such a row.
	Order(ctx context.Context, topic, publisher, status string, reset bool) (bool, error)

	// Last returns the largest position in the table of events; 0: it is empty.
	Last(ctx context.Context) (int64, error)

	// Close frees the connections.
	Close()
}
