// Package queuetable claims and settles rows of tables in MariaDB and MySQL that carry a status: those of presets that
// have a definition for MySQL, and those that a [Layout] describes.
//
// # Columns of our own
//
// These databases have no index of an expression that both know, nor one of some rows. So [Init] adds
// columns that neither SELECT * nor an INSERT without a list of columns sees:
//
//   - outrider_queue is computed from the row: NULL for a finished one, "." for one that is in no order, otherwise "=" and the
//     group, as bytes. So 'a', 'A', 'a ' and 'é' are four groups, whatever the collation of the group's column. It takes any value of
//     the columns that it is computed from: it makes no text of bytes, which the server would refuse. And
//     finished rows, however many, are at one end of the index that finds work.
//   - outrider_state is computed from the status: 1 for an unfinished row, 2 for a dead one, NULL for one that was delivered. With it rows are found
//     by age. A claim changes neither of the two, and so writes no index but those of the table that have the status in them.
//   - outrider_claim, in tables with a status for claimed rows, says which process has claimed the row. The time of a claim
//     alone does not: a TIMESTAMP without precision has whole seconds, and two claims of one second are alike. It is a number that is never NULL: a claim that
//     makes rows longer splits the pages of the table, and takes a third longer (27 us of processor time for a row of 300 bytes instead of 21).
//
// # How a claim finds work
//
// The engine of package queue reads the index (outrider_queue, created, key) in rounds. One statement reads a page, and so
// sees all rows of its groups at one moment: what waits, and what is held.
//
// The chosen rows are locked by primary key with SKIP LOCKED, read, and marked, in one short transaction. A row that another process
// has locked or changed since the page was read is missing then. Locking by
// primary key locks nothing else, whatever plan there is for the page. The transaction is at READ COMMITTED: it locks no gaps, so no
// INSERT waits for it.
//
// # Whose claim it is
//
// A row is ours while its status, outrider_claim, and the time of the claim are those that we wrote. Other processors do not know outrider_claim
// and leave it as it is; the time identifies them. Ours is one unit of the column's precision in the past: no later claim of the
// row has that time, also within the same second.
//
// A connection may break while it commits. Whether that settled anything is found out when the same results are given again: the rows
// have the state that was wanted and outrider_claim still says that it was us.
//
// # What is different from PostgreSQL
//
// A row that is not due ends the prefix of its group also if no route wants it. There is no hot path, and nothing is kept outside the table.
package queuetable
