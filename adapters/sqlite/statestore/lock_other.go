//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package statestore

// lockShowsLife: without flock, the lock keeps apart the instances of one
// process only. Those of other processes are known by their leases: a second
// instance is refused while one runs, and a dead one is replaced when its
// lease is over.
const lockShowsLife = false

func lockFile(name, instance string) (instanceLock, error) { return lockMemory(name, instance) }
