package statestore

import (
	"fmt"
	"os"
	"sync"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// lockSuffix names the file next to the database that the running instance
// holds a lock on. The file stays: deleting it would let two instances lock
// two files of one name. Who ends, however it ends, loses the lock.
const lockSuffix = ".outrider-lock"

// instanceLock is held by the one instance that serves a database.
type instanceLock interface {
	// release frees the lock. It is called once.
	release()
}

// lockInstance takes the lock of the database at path. The error wraps
// [adapters.ErrSecondInstance] when another holds it and names that one.
func lockInstance(path, instance string) (instanceLock, error) {
	l, err := lite.Locate(path)
	if err != nil {
		return nil, err
	}
	if l.Memory() {
		return lockMemory(l.Name(), instance)
	}
	name, err := l.Resolved()
	if err != nil {
		return nil, err
	}
	return lockFile(name+lockSuffix, instance)
}

// holder describes ourselves for those whom we refuse.
func holder(instance string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("pid %d on host %s, instance %s", os.Getpid(), host, instance)
}

// refusal says who holds the lock; by is empty when that is not known.
func refusal(by string) error {
	if by == "" {
		return fmt.Errorf("%w; stop it first", adapters.ErrSecondInstance)
	}
	return fmt.Errorf("%w: %s; stop it first", adapters.ErrSecondInstance, by)
}

// Databases in memory live in this process, and so do their locks.
var (
	memoryMu    sync.Mutex
	memoryLocks = map[string]string{} // name to holder
)

type memoryLock string

func lockMemory(name, instance string) (instanceLock, error) {
	memoryMu.Lock()
	defer memoryMu.Unlock()
	if by, held := memoryLocks[name]; held {
		return nil, refusal(by)
	}
	memoryLocks[name] = holder(instance)
	return memoryLock(name), nil
}

func (l memoryLock) release() {
	memoryMu.Lock()
	defer memoryMu.Unlock()
	delete(memoryLocks, string(l))
}
