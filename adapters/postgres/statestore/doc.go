// Package statestore keeps what Outrider remembers in PostgreSQL: cursors, ownership of
// lanes, parked messages, pauses, the audit log and ids for deduplication ([Store]).
// The database need not be that of an outbox. [LeaderLock] is the advisory lock of a
// source that one instance reads at a time.
//
// Each settle is one transaction (settle.go). An instance shows that it lives by a lease and
// by a session advisory lock (session.go); acquiring a lane raises its epoch
// (acquire.go), and a settle with a lower one writes nothing.
package statestore

import "github.com/outriderhq/outrider/adapters/postgres/internal/pg"

// TLS says how connections by URL are encrypted. The zero value is safe.
type TLS = pg.TLS
