package deploy

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	"strings"
	"sync"
	"testing"
	"time"
)

// Where `make release-snapshot` puts what it makes.
const dist = "../dist"

// snapshot makes a release as it will be published, but for a tag, a signature and, unless OUTRIDER_TEST_FULL=1, other platforms than this one:
// compiling for all six takes a quarter of an hour on two cores.
func snapshot(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles goreleaser")
	}
	if err := makeSnapshot(); err != nil {
		t.Fatal(err)
	}
}

var makeSnapshot = sync.OnceValue(func() error {
	target := map[bool]string{false: "package", true: "release-snapshot"}[full()]
	began := time.Now()
	if out, err := exec.Command("make", "-C", "..", target).CombinedOutput(); err != nil {
		return fmt.Errorf("make %s: %w\n%s", target, err, out)
	}
	fmt.Printf("make %s took %v\n", target, time.Since(began).Round(time.Second))
	return nil
})

func full() bool { return os.Getenv("OUTRIDER_TEST_FULL") != "" }

// platforms are those of the release, or those that [snapshot] builds.
func platforms() []string {
	if full() {
		return []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64"}
	}
	return []string{runtime.GOOS + "_" + runtime.GOARCH}
}

// made returns the only file of the release that a pattern matches.
func made(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist, pattern))
	if err != nil || len(found) != 1 {
		all, _ := filepath.Glob(filepath.Join(dist, "*"))
		t.Fatalf("%d files are %s (%v); there are %v", len(found), pattern, err, all)
	}
	return found[0]
}

// run runs a program and returns what it prints.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

func TestReleaseIsForSixPlatforms(t *testing.T) {
	for _, line := range []string{"    goos: [linux, darwin, windows]\n", "    goarch: [amd64, arm64]\n"} {
		if !strings.Contains(read(t, "../.goreleaser.yaml"), line) {
			t.Errorf(".goreleaser.yaml lacks %q, which `make package` replaces", line)
		}
	}
}

func TestReleaseArchives(t *testing.T) {
	snapshot(t)
	for _, platform := range platforms() {
		program, suffix, list := "outrider", ".tar.gz", tarFiles
		if strings.HasPrefix(platform, "windows") {
			program, suffix, list = "outrider.exe", ".zip", zipFiles
		}
		path := made(t, "outrider_*_"+platform+suffix)
		folder := strings.TrimSuffix(filepath.Base(path), suffix)
		files := list(t, path)
		for _, want := range []string{program, "LICENSE", "README.md", "CHANGELOG.md", "outrider.yaml", "outrider.env", "outrider.service",
			"man/outrider.1.gz", "man/outrider-run.1.gz", "completions/outrider.bash", "completions/_outrider", "completions/outrider.fish"} {
			if size, ok := files[folder+"/"+want]; !ok || size == 0 {
				t.Errorf("%s lacks %s; it has %v", path, want, slices.Sorted(maps.Keys(files)))
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d MiB, its program %d MiB", filepath.Base(path), info.Size()>>20, files[folder+"/"+program]>>20)
	}
}

// tarFiles returns the size of each file of an archive.
func tarFiles(t *testing.T, path string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	eachOfTar(t, path, func(h *tar.Header, _ io.Reader) { files[h.Name] = h.Size })
	return files
}

func eachOfTar(t *testing.T, path string, do func(*tar.Header, io.Reader)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		do(header, archive)
	}
}

func zipFiles(t *testing.T, path string) map[string]int64 {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	files := map[string]int64{}
	for _, f := range archive.File {
		files[f.Name] = int64(f.UncompressedSize64)
	}
	return files
}

func TestReleaseChecksums(t *testing.T) {
	snapshot(t)
	sums := map[string]string{}
	for line := range strings.Lines(read(t, made(t, "checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	for _, pattern := range []string{"*.tar.gz", "*.zip", "*.deb", "*.rpm", "*.cdx.json"} {
		files, _ := filepath.Glob(filepath.Join(dist, pattern))
		if len(files) == 0 && pattern != "*.zip" {
			t.Errorf("the release has no %s", pattern)
		}
		for _, file := range files {
			text := read(t, file)
			sum := sha256.Sum256([]byte(text))
			if got := hex.EncodeToString(sum[:]); sums[filepath.Base(file)] != got {
				t.Errorf("checksums.txt has %q for %s, want %s", sums[filepath.Base(file)], filepath.Base(file), got)
			}
			delete(sums, filepath.Base(file))
		}
	}
	if len(sums) > 0 {
		t.Errorf("checksums.txt names more files: %v", sums)
	}
}

// program extracts the released program for this machine.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "outrider")
	eachOfTar(t, made(t, "outrider_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"), func(h *tar.Header, content io.Reader) {
		if filepath.Base(h.Name) != "outrider" {
			return
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
		if err == nil {
			_, err = io.Copy(file, content)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	})
	return path
}

func TestReleaseNamesItsCommit(t *testing.T) {
	snapshot(t)
	var build struct {
		Version  string `json:"version"`
		Commit   string `json:"commit"`
		Date     string `json:"date"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}
	if err := json.Unmarshal([]byte(run(t, program(t), "version", "-o", "json")), &build); err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(run(t, "git", "rev-parse", "HEAD"))
	if build.Commit != commit || !regexp.MustCompile(`^v\d+\.\d+\.\d+-dev\.g`+commit[:7]).MatchString(build.Version) {
		t.Errorf("the program is %+v, made of commit %s", build, commit)
	}
	want, err := time.Parse(time.RFC3339, strings.TrimSpace(run(t, "git", "log", "-1", "--format=%cI")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := time.Parse(time.RFC3339, build.Date); err != nil || !got.Equal(want) {
		t.Errorf("the date is %q, want that of the commit, %v (%v)", build.Date, want, err)
	}
	if build.Platform != runtime.GOOS+"/"+runtime.GOARCH || !strings.HasPrefix(build.Go, "go1.") {
		t.Errorf("the program is %+v", build)
	}
}

// The SBOM has each module of go.mod that is part of the program, in the version that was built.
func TestReleaseSBOMListsModules(t *testing.T) {
	snapshot(t)
	type component struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	var bom struct {
		BOMFormat string `json:"bomFormat"`
		Metadata  struct {
			Component component `json:"component"`
		} `json:"metadata"`
		Components []component `json:"components"`
	}
	if err := json.Unmarshal([]byte(read(t, made(t, "outrider_*_"+runtime.GOOS+"_"+runtime.GOARCH+".cdx.json"))), &bom); err != nil {
		t.Fatal(err)
	}
	if main := bom.Metadata.Component; bom.BOMFormat != "CycloneDX" || main.Name != "github.com/outriderhq/outrider" || !strings.Contains(main.Version, "-dev.g") {
		t.Errorf("it is %s of %+v", bom.BOMFormat, main)
	}
	listed := map[string]string{}
	for _, c := range bom.Components {
		listed[c.Name] = c.Version
	}
	required := map[string]string{}
	for line := range strings.Lines(read(t, "../go.mod")) {
		if fields := strings.Fields(line); len(fields) >= 2 {
			required[fields[0]] = fields[1]
		}
	}
	for _, module := range []string{"github.com/jackc/pgx/v5", "github.com/twmb/franz-go", "github.com/ThreeDotsLabs/watermill", "github.com/coreos/go-systemd/v22"} {
		if listed[module] == "" || listed[module] != required[module] {
			t.Errorf("%s is %q, want %q", module, listed[module], required[module])
		}
	}
	t.Logf("%d components", len(listed))
}

// What both packages have: paths with their modes.
var packaged = map[string]string{
	"/usr/bin/outrider":                                  "-rwxr-xr-x",
	"/usr/lib/systemd/system/outrider.service":           "-rw-r--r--",
	"/etc/outrider/outrider.yaml":                        "-rw-r--r--",
	"/etc/outrider/outrider.env":                         "-rw-------",
	"/usr/share/man/man1/outrider.1.gz":                  "-rw-r--r--",
	"/usr/share/man/man1/outrider-doctor.1.gz":           "-rw-r--r--",
	"/usr/share/bash-completion/completions/outrider":    "-rw-r--r--",
	"/usr/share/fish/vendor_completions.d/outrider.fish": "-rw-r--r--",
	"/usr/share/doc/outrider/copyright":                  "-rw-r--r--",
}

// checkPackaged reads a listing of files as `ls -l` and `tar -tv` print it.
func checkPackaged(t *testing.T, listing, zsh string) {
	t.Helper()
	want := maps.Clone(packaged)
	want[zsh] = "-rw-r--r--"
	for lines := bufio.NewScanner(strings.NewReader(listing)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		path := "/" + strings.TrimLeft(fields[len(fields)-1], "./")
		if mode, ok := want[path]; ok && mode != fields[0] {
			t.Errorf("%s has mode %s, want %s", path, fields[0], mode)
		}
		if !strings.Contains(lines.Text(), "root") {
			t.Errorf("not of root: %s", lines.Text())
		}
		delete(want, path)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v in\n%s", slices.Sorted(maps.Keys(want)), listing)
	}
}

func TestReleaseDeb(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("packages are for Linux")
	}
	snapshot(t)
	tool, deb := need(t, "dpkg-deb", "dpkg"), made(t, "outrider_*_"+runtime.GOARCH+".deb")
	checkPackaged(t, run(t, tool, "-c", deb), "/usr/share/zsh/vendor-completions/_outrider")
	fields := run(t, tool, "-f", deb)
	for _, want := range []string{"Package: outrider\n", "Version: ", "~dev.g", "Architecture: " + runtime.GOARCH + "\n", "Description: Transactional-outbox relay\n"} {
		if !strings.Contains(fields, want) {
			t.Errorf("the fields lack %q:\n%s", want, fields)
		}
	}
	if got := run(t, tool, "-I", deb, "conffiles"); got != "/etc/outrider/outrider.env\n/etc/outrider/outrider.yaml\n" {
		t.Errorf("conffiles: %q", got)
	}
}

func TestReleaseRPM(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("packages are for Linux")
	}
	snapshot(t)
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	tool, file := need(t, "rpm", "rpm"), made(t, "outrider-*."+arch+".rpm")
	checkPackaged(t, run(t, tool, "-qplv", file), "/usr/share/zsh/site-functions/_outrider")
	if got := run(t, tool, "-qp", "--queryformat", "%{NAME} %{ARCH} %{LICENSE} %{SUMMARY}", file); got != "outrider "+arch+" Apache-2.0 Transactional-outbox relay" {
		t.Errorf("it is %q", got)
	}
	if got := run(t, tool, "-qpc", file); got != "/etc/outrider/outrider.env\n/etc/outrider/outrider.yaml\n" {
		t.Errorf("configuration: %q", got)
	}
	scripts := run(t, tool, "-qp", "--scripts", file)
	for _, want := range []string{"postinstall scriptlet", "preuninstall scriptlet", "postuninstall scriptlet", "outrider doctor --config /etc/outrider/outrider.yaml"} {
		if !strings.Contains(scripts, want) {
			t.Errorf("the scripts lack %q:\n%s", want, scripts)
		}
	}
}
