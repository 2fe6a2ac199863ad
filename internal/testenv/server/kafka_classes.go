package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// classes are the flags of the archive of classes for one of Kafka's programs.
func (s *Kafka) classes() []string {
	if s.opts.Archive == "" {
		return nil
	}
	if _, err := os.Stat(s.opts.Archive); err != nil {
		return nil
	}
	return []string{"-XX:SharedArchiveFile=" + s.opts.Archive}
}

// writesClasses reports whether the broker leaves an archive of its classes when it ends.
func (s *Kafka) writesClasses() bool {
	return s.opts.Archive != "" && s.opts.Brief && s.classes() == nil
}

// newArchive is the file into which the broker's Java writes its archive. Concurrent runs write others.
func (s *Kafka) newArchive() string { return s.opts.Archive + "-" + filepath.Base(s.dir) }

// keepClasses stops the broker cleanly, which is when Java writes the archive, and puts the archive in its place. Java before 13 writes none.
func (s *Kafka) keepClasses() error {
	if err := s.stop(syscall.SIGTERM); err != nil {
		return err
	}
	if err := os.Rename(s.newArchive(), s.opts.Archive); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the archive of Kafka's classes: %w", err)
	}
	return nil
}
