package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
)

// Prometheus is a Prometheus on a loopback port. Methods may be called concurrently.
type Prometheus struct {
	*host
	port int
}

// StartPrometheus starts the program with a configuration, in which paths are relative to [Prometheus.Dir]; prepare writes the files that it names
// there. The caller must Close it. The error of a failed start holds its log.
func StartPrometheus(ctx context.Context, program, config string, prepare func(dir string) error) (*Prometheus, error) {
	ports, err := FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	h, err := newHost("Prometheus", "", "outrider-prometheus-")
	if err != nil {
		return nil, err
	}
	s := &Prometheus{host: h, port: ports[0]}
	err = errors.Join(prepare(s.dir), os.WriteFile(filepath.Join(s.dir, "prometheus.yml"), []byte(config), 0o600))
	if err == nil {
		err = s.start(ctx, command{
			path: program, args: []string{"--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=" + address(s.port)},
			dir: s.dir, env: []string{"LC_ALL=C"}, log: filepath.Join(s.dir, "log"), orphanSignal: syscall.SIGKILL,
		}, syscall.SIGKILL, s.answers(s.ask))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// URL returns its address.
func (s *Prometheus) URL() string { return "http://" + address(s.port) }

// Close kills the server, with all that is in it.
func (s *Prometheus) Close() error { return s.close(syscall.SIGKILL) }

func (s *Prometheus) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/-/ready", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}
