//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package statestore

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A child has the files of its parent from its start until it runs its program. An instance that leaves meanwhile leaves no lock behind.
func TestAReleasedLockIsFreeThoughAChildHasTheFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	lock, err := lockFile(name, "first")
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := unix.Dup(int(lock.(*fileLock).file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(inherited) }()
	lock.release()
	next, err := lockFile(name, "second")
	if err != nil {
		t.Fatal(err)
	}
	next.release()
}
