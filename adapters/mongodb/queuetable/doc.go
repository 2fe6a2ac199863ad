// Package queuetable claims and settles documents of collections in MongoDB that carry a status: those of layouts that
// say what their fields are called there ([layout.Queue.Fields]).
//
// # How a claim finds work
//
// The engine of package queue reads an index of what is unfinished in rounds, by group, time of creation and _id.
//
// The status is no part of the index's key. A document that changes its status while the index is read keeps its
// place there and is seen, whatever its status is by then. Along an index that begins with the status, like FlowCatalyst's,
// such a document is missed, and what is behind it would be claimed out of turn. So [Queue.Check] insists on the index.
//
// # How documents are claimed
//
// There is no transaction: a server that is no member of a replica set has none. One updateMany marks the chosen documents
// that still wait, each atomically, with the token of this queue in a field of our own and a time that no other claim of it has. If fewer were marked
// than were chosen, the marked ones are read; of each group those up to the first that is missing are kept, and the rest are put back. So two
// claimers at a time, ours or other processors, never hold documents of a group with another's in between.
//
// A claim is known by that token and that time. Other processors, which know nothing of the token, change the time.
//
// # What differs from SQL
//
// Settling writes one document at a time. After an error some results may have been written; given again, they count
// as written if the document is as the result wants it.
package queuetable
