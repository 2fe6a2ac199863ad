//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package statestore

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lockShowsLife: a process that gets the lock knows that all others are dead, because
// the kernel frees it when its process ends.
const lockShowsLife = true

// errLocked says that another holds the lock.
var errLocked = errors.New("locked")

type fileLock struct{ file *os.File }

func lockFile(name, instance string) (instanceLock, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // it names the holder, for all to read
	if err != nil {
		return nil, fmt.Errorf("open the instance's lock file (the directory must be writable): %w", err)
	}
	if err := flock(file); err != nil {
		text, _ := os.ReadFile(name) // only names the holder
		_ = file.Close()
		if errors.Is(err, errLocked) {
			return nil, refusal(strings.TrimSpace(string(text)))
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	// Only informs those whom we refuse: failing to write it is no reason to fail.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(holder(instance)+"\n"), 0)
	}
	return &fileLock{file: file}, nil
}

func flock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		default:
			return err
		}
	}
}

// release frees the lock and closes the file. To close it is not enough: a child that this process is just
// starting has the file too, until it runs its program.
func (l *fileLock) release() {
	_ = unix.Flock(int(l.file.Fd()), unix.LOCK_UN)
	_ = l.file.Close()
}
