package testenv

import (
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// Promtool returns the program that checks and tests rules of Prometheus.
func Promtool(tb testing.TB) string {
	tb.Helper()
	return prometheusProgram(tb, "promtool")
}

// StartPrometheus starts a private Prometheus with a configuration; prepare writes the files that it names into a folder. It is killed and deleted
// when the test ends.
func StartPrometheus(tb testing.TB, config string, prepare func(dir string) error) *server.Prometheus {
	tb.Helper()
	s, err := server.StartPrometheus(tb.Context(), prometheusProgram(tb, "prometheus"), config, prepare)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("testenv: close Prometheus: %v", err)
		}
	})
	return s
}

func prometheusProgram(tb testing.TB, name string) string {
	tb.Helper()
	skipShort(tb)
	bin, err := provision.Host{}.Prometheus(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	return filepath.Join(bin, name)
}
