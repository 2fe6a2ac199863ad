package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// RedisOptions says how a Redis server is started.
type RedisOptions struct {
	// Program is the server's, under any name. Required.
	Program string

	// Sentinel names the address of a master: the server is then a sentinel that watches it as "main", alone, and has it failed over after a second.
	Sentinel string

	// Cluster makes the server a node of a cluster. Nodes talk to each other on a port of their own.
	Cluster bool

	// CertFile and KeyFile are the server's certificate and private key, PEM, and CAFile the authority of clients' certificates. They
	// make TLS the only way in; clients need no certificate.
	CertFile, KeyFile, CAFile string

	// Settings are further ones, for example "maxmemory 10mb".
	Settings []string

	// Keep lets the server outlive the process that started it.
	Keep bool
}

// Redis is a Redis server on a loopback port, whose writes reach the disk before they are answered. Methods may be called concurrently.
type Redis struct {
	*host
	opts RedisOptions
	port int
	bus  int // where nodes of a cluster talk to this one
}

// StartRedis starts a server without data, in a few hundredths of a second. The caller must Close it, unless Keep is set. The error of a failed start
// holds the server's log.
func StartRedis(ctx context.Context, opts RedisOptions) (*Redis, error) {
	ports, err := FreePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	h, err := newHost("Redis", "", "outrider-redis-")
	if err != nil {
		return nil, err
	}
	s := &Redis{host: h, opts: opts, port: ports[0], bus: ports[1]}
	err = errors.Join(os.Symlink(opts.Program, s.file("redis-server")), os.WriteFile(s.file("conf"), []byte(s.config()), 0o600))
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Address returns the server's host:port, which stays the same over restarts.
func (s *Redis) Address() string { return address(s.port) }

// ClusterBus returns the host:port on which other nodes of a cluster reach this one.
func (s *Redis) ClusterBus() string { return address(s.bus) }

// Start starts the stopped server on its port and data, and returns when it answers.
func (s *Redis) Start(ctx context.Context) error {
	c := command{path: s.file("redis-server"), args: []string{s.file("conf")}, dir: s.dir, env: []string{"LC_ALL=C"}, log: s.file("log")}
	if s.opts.Sentinel != "" {
		c.args = append(c.args, "--sentinel")
	}
	if !s.opts.Keep {
		c.orphanSignal = syscall.SIGKILL
	}
	return s.start(ctx, c, syscall.SIGKILL, s.answers(s.ask))
}

// Freeze stops the server's process until Thaw: connections stay, and nothing is answered.
func (s *Redis) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Redis) Thaw() error { return s.signal(syscall.SIGCONT) }

func (s *Redis) signal(sig syscall.Signal) error {
	pid := s.PID()
	if pid == 0 {
		return errStopped
	}
	return syscall.Kill(pid, sig)
}

// Close kills the server, with all that is in it.
func (s *Redis) Close() error { return s.close(syscall.SIGKILL) }

func (s *Redis) file(name string) string { return filepath.Join(s.dir, name) }

// config is the file of the server's settings. Sentinels write to theirs.
func (s *Redis) config() string {
	lines := []string{"bind " + loopback, "dir " + s.dir}
	listen := "port " + strconv.Itoa(s.port)
	if s.opts.CertFile != "" {
		listen = "port 0\ntls-port " + strconv.Itoa(s.port)
		lines = append(lines, "tls-cert-file "+s.opts.CertFile, "tls-key-file "+s.opts.KeyFile, "tls-ca-cert-file "+s.opts.CAFile, "tls-auth-clients optional")
	}
	lines = append(lines, listen)
	if s.opts.Cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-port "+strconv.Itoa(s.bus))
	}
	if s.opts.Sentinel != "" {
		host, port, _ := strings.Cut(s.opts.Sentinel, ":")
		lines = append(lines, fmt.Sprintf("sentinel monitor main %s %s 1", host, port), "sentinel down-after-milliseconds main 1000",
			"sentinel failover-timeout main 3000")
	} else {
		lines = append(lines, `save ""`, "appendonly yes", "appendfsync always", "repl-diskless-sync-delay 0")
	}
	return strings.Join(append(lines, s.opts.Settings...), "\n") + "\n"
}

// ask succeeds when the server answers a ping: it may say that it wants a password first, but not that it is loading.
func (s *Redis) ask(ctx context.Context) (err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address())
	if err != nil || s.opts.CertFile != "" {
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "+PONG") && !strings.HasPrefix(line, "-NOAUTH") {
		return fmt.Errorf("a ping is answered with %s", strings.TrimSpace(line))
	}
	return err
}
