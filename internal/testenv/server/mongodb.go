package server

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// MongoOptions says how a server of MongoDB's protocol is started.
type MongoOptions struct {
	Java  string // the java program. Required
	Jars  string // the folder of the server's jars and of its class. Required
	Class string // the program. Required

	// CertFile and KeyFile are the server's certificate and its private key (EC, PKCS #8), PEM. They turn TLS on.
	CertFile, KeyFile string

	// Keep lets the server outlive the process that started it.
	Keep bool
}

// MongoDB is a server of MongoDB's protocol on a loopback port, which keeps everything in memory. Methods may be
// called concurrently.
type MongoDB struct {
	*host
	opts MongoOptions
	port int
}

// StartMongoDB starts a server. The caller must Close it, unless Keep is set. The error of a failed start holds the
// server's log.
func StartMongoDB(ctx context.Context, opts MongoOptions) (*MongoDB, error) {
	ports, err := FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	h, err := newHost("the server for MongoDB", "", "outrider-mongodb-")
	if err != nil {
		return nil, err
	}
	s := &MongoDB{host: h, opts: opts, port: ports[0]}
	if err := s.run(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// URL returns the address of the server, without a database.
func (s *MongoDB) URL() string { return "mongodb://" + address(s.port) }

func (s *MongoDB) run(ctx context.Context) error {
	c := command{
		path: s.opts.Java,
		args: []string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", filepath.Join(s.opts.Jars, "*") + string(os.PathListSeparator) + s.opts.Jars,
			s.opts.Class, strconv.Itoa(s.port)},
		dir: s.dir, env: os.Environ(), log: filepath.Join(s.dir, "log"),
	}
	if s.opts.CertFile != "" {
		c.args = append(c.args, s.opts.CertFile, s.opts.KeyFile)
	}
	if !s.opts.Keep {
		c.orphanSignal = syscall.SIGKILL
	}
	return s.start(ctx, c, syscall.SIGKILL, s.answers(func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address(s.port))
		if err != nil {
			return err
		}
		return conn.Close()
	}))
}

// Close kills the server, with all that is in it.
func (s *MongoDB) Close() error { return s.close(syscall.SIGKILL) }
