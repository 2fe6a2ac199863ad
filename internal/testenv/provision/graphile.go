package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// GraphileVersion is the version of graphile-worker, a job queue on Node.js, that the benchmark compares with.
const GraphileVersion = "0.17.3"

// Graphile returns the program of Node.js and a folder whose node_modules has graphile-worker, downloaded with npm when missing.
func (h Host) Graphile(ctx context.Context) (node, dir string, err error) {
	if node, err = exec.LookPath("node"); err != nil {
		return "", "", errors.New("graphile-worker needs Node.js: install it (node, npm) and try again")
	}
	cache, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	dir = filepath.Join(cache, "graphile-worker-"+GraphileVersion)
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "graphile-worker", "package.json")); err == nil {
		return node, dir, nil
	}
	if !h.Install {
		return "", "", fmt.Errorf("no graphile-worker %s found in %s: `make bench` downloads it", GraphileVersion, cache)
	}
	err = fill(dir, func(tmp string) error {
		cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", tmp, "--no-audit", "--no-fund", "--ignore-scripts", "graphile-worker@"+GraphileVersion)
		return h.run(ctx, "downloading graphile-worker "+GraphileVersion, cmd)
	})
	return node, dir, err
}
