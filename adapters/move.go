package adapters

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
	More   bool // not all rows were counted
}
