package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// RabbitOptions says how a RabbitMQ server is started.
type RabbitOptions struct {
	Scripts string // the folder of rabbitmq-server and rabbitmqctl. Required

	// CertFile and KeyFile are the server's certificate and private key, PEM, and CAFile the authority of
	// clients' certificates. They turn on a second port, with TLS.
	CertFile, KeyFile, CAFile string

	// Settings are further lines of rabbitmq.conf, for example "max_message_size = 1048576".
	Settings []string

	// Keep lets the server outlive the process that started it.
	Keep bool
}

// RabbitMQ is a RabbitMQ server on a loopback port, with a node name, an Erlang cookie and a port mapper of its own. Its user
// "guest" with the password "guest" may do everything. Methods may be called concurrently.
type RabbitMQ struct {
	*host
	opts   RabbitOptions
	ports  []int // AMQP, AMQP over TLS, other nodes, the port mapper
	mapper *process
}

// StartRabbitMQ starts a new server, in five to ten seconds. The caller must Close it, unless Keep is set. The error of a
// failed start holds the server's log.
func StartRabbitMQ(ctx context.Context, opts RabbitOptions) (*RabbitMQ, error) {
	ports, err := FreePorts(ctx, 4)
	if err != nil {
		return nil, err
	}
	h, err := newHost("RabbitMQ", "", "outrider-rabbitmq-")
	if err != nil {
		return nil, err
	}
	s := &RabbitMQ{host: h, opts: opts, ports: ports}
	if err := errors.Join(s.configure(), s.startMapper()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// URL returns the address of the server with its user, which stays the same over restarts.
func (s *RabbitMQ) URL() string { return "amqp://guest:guest@" + address(s.ports[0]) + "/" }

// SecureURL returns the address with TLS, of a server with a certificate.
func (s *RabbitMQ) SecureURL() string { return "amqps://guest:guest@" + address(s.ports[1]) + "/" }

// Start starts the stopped server on its port and data, and returns when it accepts connections.
func (s *RabbitMQ) Start(ctx context.Context) error {
	c := command{path: filepath.Join(s.opts.Scripts, "rabbitmq-server"), dir: s.dir, env: s.env(), log: s.file("log")}
	if !s.opts.Keep {
		c.orphanSignal = syscall.SIGKILL
	}
	return s.start(ctx, c, syscall.SIGKILL, s.answers(s.ask))
}

// Stop shuts the server down cleanly and returns when it has ended.
func (s *RabbitMQ) Stop() error { return s.stop(syscall.SIGTERM) }

// Close kills the server if it runs and deletes its data.
func (s *RabbitMQ) Close() error {
	err := s.close(syscall.SIGKILL)
	if s.mapper != nil {
		err = errors.Join(err, s.mapper.end(syscall.SIGKILL))
	}
	return err
}

// Control runs rabbitmqctl, for example with "set_vm_memory_high_watermark", "0". It takes a second or two.
func (s *RabbitMQ) Control(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.opts.Scripts, "rabbitmqctl"), args...)
	cmd.Dir, cmd.Env = s.dir, s.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rabbitmqctl %s: %w:\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// AwaitSaved returns when the server has written to disk where the log of a quorum queue is.
func (s *RabbitMQ) AwaitSaved(ctx context.Context, queue string) error {
	return s.answers(func(context.Context) error {
		files, err := filepath.Glob(s.file("data/*/quorum/*/names.dets"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("expected one file of names, got %v (%w)", files, err)
		}
		text, err := os.ReadFile(files[0])
		if err == nil && !bytes.Contains(text, []byte(queue)) {
			err = fmt.Errorf("queue %s is not in %s", queue, files[0])
		}
		return err
	})(ctx, s.proc)
}

func (s *RabbitMQ) file(name string) string { return filepath.Join(s.dir, name) }

// ask succeeds when the server greets a client.
func (s *RabbitMQ) ask(ctx context.Context) (err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address(s.ports[0]))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// configure writes the settings. The disk that tests run on may be nearly full, which is no concern of theirs.
func (s *RabbitMQ) configure() error {
	lines := []string{"listeners.tcp.1 = " + address(s.ports[0]), "disk_free_limit.absolute = 1MB", "log.console = true", "log.console.level = warning", "log.file = false"}
	if s.opts.CertFile != "" {
		lines = append(lines, "listeners.ssl.1 = "+address(s.ports[1]), "ssl_options.certfile = "+s.opts.CertFile, "ssl_options.keyfile = "+s.opts.KeyFile,
			"ssl_options.cacertfile = "+s.opts.CAFile, "ssl_options.verify = verify_peer", "ssl_options.fail_if_no_peer_cert = false")
	}
	lines = append(lines, s.opts.Settings...)
	return errors.Join(os.WriteFile(s.file("rabbitmq.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600),
		os.WriteFile(s.file("enabled_plugins"), []byte("[].\n"), 0o600))
}

// startMapper starts Erlang's port mapper, which a node would start otherwise and leave behind.
func (s *RabbitMQ) startMapper() error {
	path, err := exec.LookPath("epmd")
	if err != nil {
		return fmt.Errorf("start Erlang's port mapper: %w", err)
	}
	c := command{path: path, args: []string{"-address", loopback, "-port", strconv.Itoa(s.ports[3])}, dir: s.dir, env: s.env(), log: s.file("mapper.log")}
	if !s.opts.Keep {
		c.orphanSignal = syscall.SIGKILL
	}
	s.mapper, err = launch(c)
	return err
}

// env is the environment of the server and its tools: nothing of it is shared with another RabbitMQ of this machine.
func (s *RabbitMQ) env() []string {
	port := strconv.Itoa(s.ports[0])
	return []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + s.dir,
		"RABBITMQ_NODENAME=outrider" + port + "@localhost", "RABBITMQ_DIST_PORT=" + strconv.Itoa(s.ports[2]),
		"ERL_EPMD_ADDRESS=" + loopback, "ERL_EPMD_PORT=" + strconv.Itoa(s.ports[3]),
		"RABBITMQ_CONF_ENV_FILE=" + s.file("none"), "RABBITMQ_CONFIG_FILE=" + s.file("rabbitmq.conf"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + s.file("none"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + s.file("enabled_plugins"), "RABBITMQ_MNESIA_BASE=" + s.file("data"), "RABBITMQ_LOG_BASE=" + s.file("logs"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none",
		"detached=1", // the script becomes the server, so that signals reach it
	}
}
