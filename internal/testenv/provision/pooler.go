package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// EnvPgBouncer names PgBouncer's program and overrides the search for it.
const EnvPgBouncer = "OUTRIDER_PGBOUNCER"

const pgBouncerPackage = "pgbouncer"

// pgBouncerUnit masks the service of the system that Debian's package would start: the servers of tests are their own.
const pgBouncerUnit = "/etc/systemd/system/pgbouncer.service"

var errNoPgBouncer = errors.New("no PgBouncer found: install pgbouncer (`make test` installs it, with apt as root), or set " + EnvPgBouncer + " to its program")

// PgBouncer returns the program of the pooler.
func (h Host) PgBouncer(ctx context.Context) (string, error) {
	if path, ok := findPgBouncer(); ok {
		return path, nil
	}
	if h.Install && hasApt() {
		if err := os.Symlink(os.DevNull, pgBouncerUnit); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("prepare the installation of PgBouncer: %w", err)
		}
		if _, err := h.apt(ctx, pgBouncerPackage); err != nil {
			return "", err
		}
		if path, ok := findPgBouncer(); ok {
			return path, nil
		}
	}
	return "", errNoPgBouncer
}

// findPgBouncer looks for the program: Debian has it where only root's path leads.
func findPgBouncer() (string, bool) {
	if path := os.Getenv(EnvPgBouncer); path != "" {
		return path, true
	}
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// MissingPgBouncer is [Host.MissingPostgres] for [Host.PgBouncer].
func (h Host) MissingPgBouncer(context.Context) []string {
	if _, ok := findPgBouncer(); ok || !hasApt() {
		return nil
	}
	return []string{"PgBouncer: package " + pgBouncerPackage + ", with apt, " + pgBouncerSize}
}

var errNoRepack = errors.New("no pg_repack found for this PostgreSQL (`make test` installs it, with apt as root)")

// PgRepack returns the program that rewrites tables, for the PostgreSQL of [Host.Postgres] when that is Debian's: it must be of the extension's
// version, which is installed with it.
func (h Host) PgRepack(ctx context.Context) (string, error) {
	bin, err := h.Postgres(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(bin, "pg_repack")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	major, debian := strings.CutPrefix(filepath.Dir(bin), "/usr/lib/postgresql/")
	if h.Install && debian && hasApt() {
		if _, err := h.apt(ctx, "postgresql-"+major+"-repack"); err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errNoRepack
}
