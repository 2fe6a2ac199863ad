// Package mongodb is the MongoDB adapter. Package queuetable claims and settles documents that carry a status.
package mongodb

import "github.com/outriderhq/outrider/adapters/mongodb/internal/mdb"

// Connection says how a server is reached.
type Connection = mdb.Connection

// ConnectionLost reports whether an error of this adapter is about a connection that ended early.
func ConnectionLost(err error) bool { return mdb.Lost(err) }
