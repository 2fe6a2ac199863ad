package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// MongoOptions says how a server of MongoDB's protocol is started.
type MongoOptions struct {
	Java  string // the java program. Required
	Jars  string // the folder of the server's jars and of its class. Required
	Class string // the program. Required

	// Keep lets the server outlive the process that started it.
	Keep bool
}

// MongoDB is a server of MongoDB's protocol on a loopback port, which keeps everything in memory. Methods may be
// called concurrently.
type MongoDB struct {
	opts MongoOptions
	dir  string // holds the log
	port int

	mu   sync.Mutex
	proc *process // nil while stopped
}

// StartMongoDB starts a server. The caller must Close it, unless Keep is set. The error of a failed start holds the
// server's log.
func StartMongoDB(ctx context.Context, opts MongoOptions) (*MongoDB, error) {
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "outrider-mongodb-")
	if err != nil {
		return nil, fmt.Errorf("make the server's folder: %w", err)
	}
	s := &MongoDB{opts: opts, dir: dir, port: ports[0]}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// URL returns the address of the server, without a database.
func (s *MongoDB) URL() string { return "mongodb://" + address(s.port) }

// PID returns the id of the server's process, 0 while it is stopped.
func (s *MongoDB) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.cmd.Process.Pid
}

// Dir returns the folder of the server's log.
func (s *MongoDB) Dir() string { return s.dir }

func (s *MongoDB) start(ctx context.Context) error {
	c := command{
		path: s.opts.Java,
		args: []string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", filepath.Join(s.opts.Jars, "*") + string(os.PathListSeparator) + s.opts.Jars,
			s.opts.Class, strconv.Itoa(s.port)},
		dir: s.dir, env: os.Environ(), log: filepath.Join(s.dir, "log"),
	}
	if !s.opts.Keep {
		c.orphanSignal = syscall.SIGKILL
	}
	p, err := launch(c)
	if err != nil {
		return err
	}
	s.proc = p
	err = awaitReady(ctx, "the server for MongoDB", p, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address(s.port))
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return errors.Join(err, p.end(syscall.SIGKILL))
	}
	return nil
}

// Close kills the server, with all that is in it.
func (s *MongoDB) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.proc != nil {
		err = s.proc.end(syscall.SIGKILL)
		s.proc = nil
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
