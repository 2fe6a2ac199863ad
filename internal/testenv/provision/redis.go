package provision

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

// EnvRedis names Redis's server program and overrides the search for it.
const EnvRedis = "OUTRIDER_REDIS_SERVER"

// redisPackage is Debian's package that has the server's program without a service of the system. The program is there under the name of
// the tool that checks its files: what it does depends on the name that it is called by.
const redisPackage = "redis-tools"

var errNoRedis = errors.New("no Redis found: install redis-server (`make test` installs it, with apt as root), or set " + EnvRedis + " to its program")

// Redis returns a program that is Redis's server when its name is redis-server: callers make a link of that name.
func (h Host) Redis(ctx context.Context) (string, error) {
	if path, ok := findRedis(); ok {
		return path, nil
	}
	if h.Install {
		done, err := h.apt(ctx, redisPackage)
		if err != nil {
			return "", err
		}
		if path, ok := findRedis(); done && ok {
			return path, nil
		}
	}
	return "", errNoRedis
}

// findRedis looks for the program.
func findRedis() (string, bool) {
	if path := os.Getenv(EnvRedis); path != "" {
		return path, true
	}
	for _, name := range []string{"redis-server", "redis-check-rdb"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// MissingRedis is [Host.MissingPostgres] for [Host.Redis].
func (h Host) MissingRedis(context.Context) []string {
	if _, ok := findRedis(); ok || !hasApt() {
		return nil
	}
	return []string{"Redis: package " + redisPackage + ", with apt, " + redisSize}
}
