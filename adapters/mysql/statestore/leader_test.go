package statestore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/mysql/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// newLeaderLock is the lock of a test, which has the name of its database: names are those of a server.
func newLeaderLock(t *testing.T, url string) *statestore.LeaderLock {
	t.Helper()
	lock, err := statestore.NewLeaderLock(statestore.LeaderConfig{URL: url, Name: url[strings.LastIndexByte(url, '/')+1:]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lock.Close)
	return lock
}

func tryLock(t *testing.T, lock *statestore.LeaderLock) <-chan struct{} {
	t.Helper()
	lost, err := lock.TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// eventuallyLocked tries until the lock is taken; only the test's end bounds it.
func eventuallyLocked(t *testing.T, lock *statestore.LeaderLock) <-chan struct{} {
	t.Helper()
	for {
		if lost := tryLock(t, lock); lost != nil {
			return lost
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestOneHoldsTheLeaderLock(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	a, b := newLeaderLock(t, url), newLeaderLock(t, url)
	lost := tryLock(t, a)
	if lost == nil || tryLock(t, b) != nil {
		t.Fatal("want the lock to be a's")
	}
	if _, err := a.TryLock(t.Context()); err == nil {
		t.Error("a took the lock twice")
	}
	a.Unlock()
	<-lost
	eventuallyLocked(t, b)
	if tryLock(t, a) != nil {
		t.Error("a has the lock beside b")
	}
	b.Close()
	select {
	case <-eventuallyLocked(t, a):
		t.Error("the lock is said to be lost")
	default:
	}
}

// Another system takes the same name by GET_LOCK in a session of its own.
func TestOthersAndTheLeaderStandByForEachOther(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	db := connect(t, url)
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if err := other.QueryRowContext(t.Context(), `SELECT get_lock(database(), 0)`).Scan(&got); err != nil || got != 1 {
		t.Fatal(got, err)
	}
	lock := newLeaderLock(t, url)
	if tryLock(t, lock) != nil {
		t.Fatal("there are two leaders")
	}
	if _, err := other.ExecContext(t.Context(), `DO release_lock(database())`); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	eventuallyLocked(t, lock)
	if value[int](t, db, `SELECT get_lock(database(), 0)`) != 0 {
		t.Error("there are two leaders")
	}
}

func TestTheLeaderLearnsThatItsConnectionDropped(t *testing.T) {
	t.Parallel()
	url := testenv.MySQL(t)
	lock, standby, db := newLeaderLock(t, url), newLeaderLock(t, url), connect(t, url)
	lost := tryLock(t, lock)
	if _, err := db.ExecContext(t.Context(), "KILL ?", value[int64](t, db, `SELECT is_used_lock(database())`)); err != nil {
		t.Fatal(err)
	}
	eventuallyLocked(t, standby)
	<-lost
	if tryLock(t, lock) != nil {
		t.Fatal("there are two leaders")
	}
	standby.Unlock()
	eventuallyLocked(t, lock) // by a new connection
}

func TestTheNameOfALeaderLockIsChecked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", strings.Repeat("x", 65)} {
		if _, err := statestore.NewLeaderLock(statestore.LeaderConfig{URL: "mysql://127.0.0.1:1/x", Name: name}); err == nil {
			t.Errorf("a name of %d characters was taken", len(name))
		}
	}
}
