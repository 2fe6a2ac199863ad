package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// ConnectOptions says how Kafka Connect is started.
type ConnectOptions struct {
	Java    string   // the java program. Required
	Jars    string   // the folder of Connect's jars. Required
	Plugins string   // a folder with a folder of jars for each plugin. Required
	Brokers []string // addresses of the Kafka brokers. Required

	// Worker are further properties of the worker, and Connector those of its
	// only connector, the name included. They may hold secrets: only this user
	// can read the files.
	Worker, Connector map[string]string
}

// Connect is a standalone worker of Kafka Connect with one connector. Its
// offsets are lost when it is closed. Methods may be called concurrently.
type Connect struct {
	opts ConnectOptions
	dir  string // holds the configuration, the offsets and the log
	port int    // of its REST API

	mu   sync.Mutex
	proc *process // nil once stopped
}

// StartConnect starts a worker and returns when its connector's task runs. The
// caller must Close it. The error of a failed start holds the worker's log.
func StartConnect(ctx context.Context, opts ConnectOptions) (*Connect, error) {
	ports, err := FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "outrider-connect-")
	if err != nil {
		return nil, fmt.Errorf("make the worker's folder: %w", err)
	}
	s := &Connect{opts: opts, dir: dir, port: ports[0]}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// PID returns the id of the worker's process, 0 once it is stopped.
func (s *Connect) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.cmd.Process.Pid
}

// Dir returns the folder of the worker's configuration and log.
func (s *Connect) Dir() string { return s.dir }

// Log returns the end of the worker's log, for errors.
func (s *Connect) Log() string {
	return (&process{log: s.logFile()}).tail()
}

// Close stops the worker cleanly if it runs and deletes its folder.
func (s *Connect) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if p := s.proc; p != nil {
		s.proc = nil
		err = p.end(syscall.SIGTERM)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *Connect) file(name string) string { return filepath.Join(s.dir, name) }
func (s *Connect) logFile() string         { return s.file("log") }

// start writes the configuration, runs the worker and waits for its task.
func (s *Connect) start(ctx context.Context) error {
	worker, connector := s.file("worker.properties"), s.file("connector.properties")
	if err := errors.Join(writeProperties(worker, s.worker()), writeProperties(connector, s.opts.Connector)); err != nil {
		return fmt.Errorf("configure Kafka Connect: %w", err)
	}
	p, err := launch(command{
		path:         s.opts.Java,
		args:         s.java("org.apache.kafka.connect.cli.ConnectStandalone", worker, connector),
		dir:          s.dir,
		env:          os.Environ(),
		log:          s.logFile(),
		orphanSignal: syscall.SIGKILL,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	return awaitReady(ctx, "Kafka Connect", p, s.ask)
}

// java returns the arguments that run one of Connect's programs, with the heap
// and the garbage collector that Kafka's own scripts give it.
func (s *Connect) java(class string, args ...string) []string {
	return append([]string{
		"-Xms256m", "-Xmx2g",
		"-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
		"-Djava.awt.headless=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(s.opts.Jars, "*"),
		class,
	}, args...)
}

// worker returns all properties of the worker.
func (s *Connect) worker() map[string]string {
	all := map[string]string{
		"bootstrap.servers":            strings.Join(s.opts.Brokers, ","),
		"offset.storage.file.filename": s.file("offsets"),
		"listeners":                    "http://" + address(s.port),
		"plugin.path":                  s.opts.Plugins,
		"plugin.discovery":             "service_load", // without reading every class of every jar
	}
	maps.Copy(all, s.opts.Worker)
	return all
}

// ask succeeds when the connector's task runs.
func (s *Connect) ask(ctx context.Context) error {
	status := fmt.Sprintf("http://%s/connectors/%s/status", address(s.port), url.PathEscape(s.opts.Connector["name"]))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, status, http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true // nothing of this connection is left behind
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Tasks []struct {
			State string `json:"state"`
			Trace string `json:"trace"`
		} `json:"tasks"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if len(answer.Tasks) == 0 {
		return errors.New("the connector has no task yet")
	}
	if t := answer.Tasks[0]; t.State != "RUNNING" {
		return fmt.Errorf("the connector's task is %s: %s", t.State, t.Trace)
	}
	return nil
}
