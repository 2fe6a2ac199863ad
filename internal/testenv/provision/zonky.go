package provision

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// zonkyVersions are the versions of PostgreSQL that Maven brings, by their major ones.
var zonkyVersions = map[int]string{14: "14.18.0", 15: "15.13.0", 16: "16.9.0", 17: "17.5.0", 18: "18.0.0"}

// zonkyVersion is the one that is taken where any will do.
const zonkyVersion = "17.5.0"

// zonkyPlatforms are the suffixes of the artifacts by Go's names of platforms.
var zonkyPlatforms = map[string]string{
	"linux/amd64":  "linux-amd64",
	"linux/arm64":  "linux-arm64v8",
	"darwin/amd64": "darwin-amd64",
	"darwin/arm64": "darwin-arm64v8",
}

// zonkyDir is where a PostgreSQL that Maven brings is kept.
func zonkyDir(version string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "postgres-"+version), nil
}

// PostgresMajor returns the folder that holds initdb and postgres of a major version, as Maven brings it,
// whatever is installed on the machine.
func (h Host) PostgresMajor(ctx context.Context, major int) (string, error) {
	version, ok := zonkyVersions[major]
	if !ok {
		return "", fmt.Errorf("no PostgreSQL %d: there are %v", major, slices.Sorted(maps.Keys(zonkyVersions)))
	}
	dir, err := zonkyDir(version)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "bin")
	if checkPostgres(ctx, bin) == nil {
		return bin, nil
	}
	if !h.Install {
		return "", fmt.Errorf("no PostgreSQL %s in %s: `make test-postgres VERSION=%d` downloads it", version, dir, major)
	}
	return h.zonky(ctx, version)
}

// zonky downloads PostgreSQL's programs as built for embedding in Java tests, a jar
// that holds one compressed tar archive, and returns their folder.
func (h Host) zonky(ctx context.Context, version string) (string, error) {
	platform, ok := zonkyPlatforms[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return "", fmt.Errorf("no PostgreSQL at Maven for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	dir, err := zonkyDir(version)
	if err != nil {
		return "", err
	}
	err = fill(dir, func(tmp string) error {
		jars := filepath.Join(tmp, "jars")
		binaries := artifact{"io.zonky.test.postgres", "embedded-postgres-binaries-" + platform, version}
		if err := h.maven(ctx, "downloading PostgreSQL "+version, jars, binaries); err != nil {
			return err
		}
		return errors.Join(unpack(ctx, jars, tmp), os.RemoveAll(jars))
	})
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "bin")
	if err := checkPostgres(ctx, bin); err != nil {
		return "", fmt.Errorf("the PostgreSQL that Maven brought does not run here: %w", err)
	}
	return bin, nil
}

// unpack unpacks the archive inside the only jar of a folder.
func unpack(ctx context.Context, jars, dir string) error {
	names, err := filepath.Glob(filepath.Join(jars, "*.jar"))
	if err != nil || len(names) != 1 {
		return fmt.Errorf("expected one jar with PostgreSQL, got %d (%w)", len(names), err)
	}
	jar, err := zip.OpenReader(names[0])
	if err != nil {
		return fmt.Errorf("open PostgreSQL's jar: %w", err)
	}
	defer func() { _ = jar.Close() }()
	for _, file := range jar.File {
		if strings.HasSuffix(file.Name, ".txz") {
			return untar(ctx, file, dir)
		}
	}
	return errors.New("PostgreSQL's jar holds no archive")
}

// untar pipes the archive through tar, since Go's library cannot read xz.
func untar(ctx context.Context, file *zip.File, dir string) error {
	in, err := file.Open()
	if err != nil {
		return fmt.Errorf("open PostgreSQL's archive: %w", err)
	}
	defer func() { _ = in.Close() }()
	cmd := exec.CommandContext(ctx, "tar", "-xJf", "-", "-C", dir)
	cmd.Stdin = in
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack PostgreSQL (this needs tar and xz): %w\n%s", err, out)
	}
	return nil
}
