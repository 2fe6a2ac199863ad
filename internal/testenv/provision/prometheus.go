package provision

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// EnvPrometheus names the folder of the programs prometheus and promtool, and overrides the search for them.
const EnvPrometheus = "OUTRIDER_PROMETHEUS"

const prometheusPackage = "prometheus"

var errNoPrometheus = errors.New("no Prometheus found: install prometheus and promtool (`make test-deploy` does, with apt as root), or set " + EnvPrometheus + " to their folder")

// Prometheus returns the folder of the programs prometheus and promtool. Debian's package is unpacked into the cache folder, not installed: its
// installation would start a service of the system.
func (h Host) Prometheus(ctx context.Context) (bin string, err error) {
	if bin, ok := findPrometheus(); ok {
		return bin, nil
	}
	if !h.Install || !hasApt() {
		return "", errNoPrometheus
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	if err := fill(filepath.Join(cache, prometheusPackage), func(dir string) error { return h.unpackDebian(ctx, prometheusPackage, dir) }); err != nil {
		return "", err
	}
	if bin, ok := findPrometheus(); ok {
		return bin, nil
	}
	return "", errNoPrometheus
}

// findPrometheus looks for the programs.
func findPrometheus() (bin string, ok bool) {
	if bin := os.Getenv(EnvPrometheus); bin != "" {
		return bin, true
	}
	if path, err := exec.LookPath("prometheus"); err == nil {
		return filepath.Dir(path), true
	}
	cache, err := cacheDir()
	if err != nil {
		return "", false
	}
	bin = filepath.Join(cache, prometheusPackage, "usr", "bin")
	_, err = os.Stat(filepath.Join(bin, "promtool"))
	return bin, err == nil
}
