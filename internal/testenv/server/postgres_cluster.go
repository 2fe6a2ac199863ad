package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
)

// Template returns the folder of a copy of the new cluster, for servers of the same version: with KeepTemplate only.
func (s *Postgres) Template() string { return filepath.Join(s.dir, "template") }

// makeCluster makes a new cluster with PostgreSQL's own settings.
func (s *Postgres) makeCluster(ctx context.Context) error {
	if s.opts.Template != "" {
		if err := s.run(ctx, "cp", "-R", s.opts.Template, s.data()); err != nil {
			return fmt.Errorf("copy a PostgreSQL cluster: %w", err)
		}
		return s.renumber()
	}
	err := s.run(ctx, filepath.Join(s.opts.Bin, "initdb"), "--pgdata="+s.data(), "--username=postgres",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return fmt.Errorf("make a PostgreSQL cluster: %w", err)
	}
	if !s.opts.KeepTemplate {
		return nil
	}
	if err := s.run(ctx, "cp", "-R", s.data(), s.Template()); err != nil {
		return fmt.Errorf("keep a copy of the PostgreSQL cluster: %w", err)
	}
	return nil
}

// run runs a program as the server's user. Its error holds what the program has printed.
func (s *Postgres) run(ctx context.Context, program string, args ...string) error {
	c := s.command(program, args...)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = c.dir, c.env, sysProcAttr(c)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w:\n%s", err, out)
	}
	return nil
}

// renumber gives the copied cluster an identifier of its own, as initdb does, by which the relay distinguishes clusters. It is the
// beginning of the control file, and the header of the log's first segment repeats it.
func (s *Postgres) renumber() error {
	control := filepath.Join(s.data(), "global", "pg_control")
	data, err := os.ReadFile(control)
	if err != nil {
		return fmt.Errorf("read the control file of a PostgreSQL cluster: %w", err)
	}
	end, err := controlChecksum(data)
	if err != nil {
		return err
	}
	_, _ = rand.Read(data[:identifierSize])                                  // never fails
	binary.NativeEndian.PutUint64(data, binary.NativeEndian.Uint64(data)>>1) // positive where it is shown
	binary.NativeEndian.PutUint32(data[end:], crc32.Checksum(data[:end], castagnoli))
	segments, err := filepath.Glob(filepath.Join(s.data(), "pg_wal", "0000*"))
	if err != nil || len(segments) != 1 {
		return errors.Join(err, fmt.Errorf("a new PostgreSQL cluster has %d segments of its log, want 1", len(segments)))
	}
	return errors.Join(overwrite(control, 0, data), overwrite(segments[0], walIdentifierAt, data[:identifierSize]))
}

const (
	identifierSize = 8

	// walIdentifierAt is where the identifier is in the header of a segment (XLogLongPageHeaderData).
	walIdentifierAt = 24

	// controlLongest is the maximal length of PostgreSQL's control data.
	controlLongest = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// controlChecksum finds the checksum of a control file, which is the end of its data. How much that is depends on the version.
func controlChecksum(data []byte) (end int, err error) {
	const step = 4
	for end = identifierSize; end+step <= min(len(data), controlLongest); end += step {
		if crc32.Checksum(data[:end], castagnoli) == binary.NativeEndian.Uint32(data[end:]) {
			return end, nil
		}
	}
	return 0, errors.New("the control file of a PostgreSQL cluster has no checksum that fits")
}

// overwrite writes over a part of a file, which stays its owner's.
func overwrite(path string, offset int64, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, offset)
	return errors.Join(err, f.Close())
}
