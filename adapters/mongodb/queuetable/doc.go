// Package queuetable claims and settles documents of collections in MongoDB that carry a status: those of layouts that
// say what their fields are called there ([layout.Queue.Fields]).
//
// # How a claim finds work
//
// A claim scans an index of what is unfinished, by group, time of creation and _id, from where the last one ended. Of
// a group it reads from the first unfinished document on, so nothing is claimed behind a document that somebody
// else holds. A long group is left after its share, so that no other one waits for it. At the end of the index the scan begins
// anew: a round. A round that finds next to nothing among very much puts the next one off, so that it takes a bounded share of the time.
//
// The status is no part of the index's key. A document that changes its status while the index is read keeps its
// place there and is seen, whatever its status is by then. Along an index that begins with the status, like the original's,
// such a document is missed, and what is behind it would be claimed out of turn. So [Queue.Check] insists on the index.
//
// # How documents are claimed
//
// There is no transaction: a server that is no member of a replica set has none. One updateMany marks the chosen documents
// that still wait, each atomically, with a token of the claim in a field of our own. If fewer were marked than were chosen, those with the
// token are read; of each group those up to the first that is missing are kept, and the others are put back. So two
// claimers at a time, of ours or foreign, never hold documents of a group with another's in between.
//
// A claim is known by its token and by the time that it wrote. Foreign processors, which know nothing of the token, change the time.
//
// # What differs from SQL
//
// Settling writes one document at a time. After an error some outcomes may have been written; given again, they count
// as written if the document is as the outcome wants it. The package decides no order between groups, retries nothing and delivers
// nothing; package router does.
package queuetable
