package adapters

// HotSource is implemented by sources whose rows can be delivered from memory, right after the commit of a transaction of this process.
//
// A row is delivered from memory only if nothing of its group can be before it: the statement that inserts it also returns what
// was inserted before, and all of that must have been read by then, or have been delivered from memory itself. The row is read later, too, as it
// stands in the table, and is then known. Uncertain rows are left to Fetch.
type HotSource interface {
	Source

	// Announce prepares an INSERT into the source's table, which any goroutine may do.
	Announce(insert string) HotRead
}

// HotRead is an INSERT whose rows are read right after the commit, from memory or from the slots that they are in. It is used by one
// goroutine at a time.
type HotRead interface {
	// Statement is to be run in place of the INSERT, with the same arguments. All columns that it returns are text.
	Statement() string

	// Inserted takes a row that the statement returned. ok is false for a row that cannot be delivered from memory: then only its slot
	// is known, or -1 if not even that is.
	Inserted(columns []*string) (row HotLogRow, slot int, ok bool)
}

// HotLogRow is a row of a [HotRead].
type HotLogRow struct {
	*Row

	// XID and Place are the version of the row: its transaction, an xid8, and its ctid.
	XID, Place string

	// Follows reports whether all that may be before the row in its group has been taken by one who has taken everything
	// that was visible as of the cursor, and what is at known positions.
	Follows func(c Cursor, known func(position int64) bool) bool
}
