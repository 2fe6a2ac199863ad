package provision

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestDebeziumOfTheEnvironmentMustBeComplete(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(EnvDebezium, dir)
	program(t, filepath.Join(dir, "connect"), "connect-runtime-3.9.1.jar", "")
	if _, err := (Host{}).debeziumJars(t.Context()); err == nil || !strings.Contains(err.Error(), EnvDebezium) {
		t.Errorf("got error %v, want one that names %s", err, EnvDebezium)
	}
	program(t, filepath.Join(dir, "plugins", "debezium"), "debezium-connector-postgres-3.3.1.Final.jar", "")
	if got, err := (Host{}).debeziumJars(t.Context()); err != nil || got != dir {
		t.Errorf("got %q, %v; want %q", got, err, dir)
	}
}
