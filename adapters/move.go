package adapters

import "context"

// CursorMove is a planned change of one lane's cursor.
type CursorMove struct {
	Slot   int
	From   Cursor  // what is settled
	Beyond []int64 // positions settled behind From
	To     Cursor
}

// MoveCount says what a [CursorMove] changes, in rows that are visible now.
type MoveCount struct {
	Again  int  // settled, and delivered a second time
	Passed int  // above where the lane stood, and not delivered
	Late   int  // below where the lane stood, committed late, and not delivered
	More   bool // not all rows were looked at
}

// MoveCounter is implemented by sources that can count what moving cursors
// changes.
type MoveCounter interface {
	// CountMoves returns a count for each move, in their order, of the rows that match;
	// nil: of all. A number above most means that there are more than so many.
	CountMoves(ctx context.Context, moves []CursorMove, most int, match func(*Row) bool) ([]MoveCount, error)
}
