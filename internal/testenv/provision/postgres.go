package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// EnvPostgresBin names the folder of PostgreSQL's programs and overrides the
// search for it.
const EnvPostgresBin = "OUTRIDER_PG_BIN"

// oldestPostgres is the first major version with the type xid8.
const oldestPostgres = 13

// errNoPostgres says what to do where no server was found.
var errNoPostgres = fmt.Errorf("no PostgreSQL %d or newer found: install it, or set %s to the folder of initdb and postgres",
	oldestPostgres, EnvPostgresBin)

// Postgres returns the folder that holds initdb and postgres.
func (h Host) Postgres(ctx context.Context) (string, error) {
	if dir := os.Getenv(EnvPostgresBin); dir != "" {
		if err := checkPostgres(ctx, dir); err != nil {
			return "", fmt.Errorf("%s: %w", EnvPostgresBin, err)
		}
		return dir, nil
	}
	if dir, ok := findPostgres(ctx); ok {
		return dir, nil
	}
	if !h.Install {
		return "", fmt.Errorf("%w (`make test` installs it, with apt as root or with Maven)", errNoPostgres)
	}
	return h.installPostgres(ctx)
}

// findPostgres looks where packages put the programs.
func findPostgres(ctx context.Context) (string, bool) {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",               // Debian
		"/usr/pgsql-*/bin",                        // Red Hat
		"/opt/homebrew/opt/postgresql@*/bin",      // macOS
		"/usr/local/opt/postgresql@*/bin",         // macOS on Intel
		"/Applications/Postgres.app/*/latest/bin", // macOS, the application
	} {
		found, _ := filepath.Glob(pattern) // fails for malformed patterns only
		slices.Reverse(found)              // the newest first
		dirs = append(dirs, found...)
	}
	if dir, err := zonkyDir(zonkyVersion); err == nil {
		dirs = append(dirs, filepath.Join(dir, "bin"))
	}
	i := slices.IndexFunc(dirs, func(dir string) bool { return checkPostgres(ctx, dir) == nil })
	if i < 0 {
		return "", false
	}
	return dirs[i], true
}

// versionNumber finds the major version in what `postgres --version` prints.
var versionNumber = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// checkPostgres returns an error unless the folder's programs will do.
func checkPostgres(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return fmt.Errorf("no initdb in the folder: %w", err)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return fmt.Errorf("ask postgres for its version: %w", err)
	}
	found := versionNumber.FindSubmatch(out)
	if found == nil {
		return fmt.Errorf("%s: cannot read the version in %q", dir, out)
	}
	if major, err := strconv.Atoi(string(found[1])); err != nil || major < oldestPostgres {
		return fmt.Errorf("%s: PostgreSQL %s is too old, %d is the oldest that will do", dir, found[1], oldestPostgres)
	}
	return nil
}

// installPostgres installs PostgreSQL with apt, otherwise with Maven.
func (h Host) installPostgres(ctx context.Context) (string, error) {
	aptErr := h.aptPostgres(ctx)
	if dir, ok := findPostgres(ctx); ok {
		return dir, nil
	}
	bin, err := h.zonky(ctx, zonkyVersion)
	if err != nil {
		return "", errors.Join(aptErr, err, errNoPostgres)
	}
	return bin, nil
}

// clusterConf is read by Debian's packages when they are installed.
const clusterConf = "/etc/postgresql-common/createcluster.conf"

// aptPostgres installs Debian's package, but no cluster of the system: without
// one its service has nothing to start, now or after a reboot.
func (h Host) aptPostgres(ctx context.Context) error {
	if !hasApt() {
		return nil
	}
	if _, err := os.Stat(clusterConf); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(clusterConf), 0o755); err != nil {
			return fmt.Errorf("prepare the installation of PostgreSQL: %w", err)
		}
		text := "# Written by the test runner of Outrider: its servers are its own.\ncreate_main_cluster = false\n"
		if err := os.WriteFile(clusterConf, []byte(text), 0o644); err != nil {
			return fmt.Errorf("prepare the installation of PostgreSQL: %w", err)
		}
	}
	_, err := h.apt(ctx, "postgresql")
	return err
}
