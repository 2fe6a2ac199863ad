package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// The release that the tests build.
const (
	version = "v0.0.1-test"
	commit  = "0123456789abcdef0123456789abcdef01234567"
	date    = "2026-11-27T01:02:03Z"
)

// made is where TestMain has built the image.
var made string

func TestMain(m *testing.M) { os.Exit(makeAndTest(m)) }

func makeAndTest(m *testing.M) int {
	dir, err := os.MkdirTemp("", "outrider-image-test-*")
	if err == nil {
		made = filepath.Join(dir, "image.tar")
		err = makeImage(made)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// makeImage calls `make image`.
func makeImage(file string) error {
	out, err := exec.Command("make", "-C", "../..", "image", "IMAGE="+file, "VERSION="+version, "COMMIT="+commit, "DATE="+date).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make image: %w\n%s", err, out)
	}
	return nil
}

// images opens the tar file, and returns its index and its images by architecture.
func images(t *testing.T) (v1.ImageIndex, map[string]v1.Image) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", made, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	path, err := layout.FromPath(dir)
	must(t, err)
	outer, err := path.ImageIndex()
	must(t, err)
	top, err := outer.IndexManifest()
	must(t, err)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != version {
		t.Fatalf("the layout has %v", top.Manifests)
	}
	index, err := outer.ImageIndex(top.Manifests[0].Digest)
	must(t, err)
	manifest, err := index.IndexManifest()
	must(t, err)
	found := map[string]v1.Image{}
	for _, d := range manifest.Manifests {
		if d.Platform == nil || d.Platform.OS != "linux" || d.MediaType != "application/vnd.oci.image.manifest.v1+json" {
			t.Fatalf("an image of the index: %+v", d)
		}
		found[d.Platform.Architecture], err = index.Image(d.Digest)
		must(t, err)
	}
	if len(found) != 2 || found["amd64"] == nil || found["arm64"] == nil || manifest.Annotations["org.opencontainers.image.version"] != version {
		t.Fatalf("the index: %+v", manifest)
	}
	return index, found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Two builds are the same file.
func TestTheImageIsReproducible(t *testing.T) {
	t.Parallel()
	again := filepath.Join(t.TempDir(), "again", "image.tar")
	must(t, makeImage(again))
	first, err := os.ReadFile(made)
	must(t, err)
	second, err := os.ReadFile(again)
	must(t, err)
	if !bytes.Equal(first, second) {
		t.Errorf("two builds differ: %d and %d bytes", len(first), len(second))
	}
}

func TestTheImageHasItsConfiguration(t *testing.T) {
	t.Parallel()
	_, found := images(t)
	for arch, image := range found {
		file, err := image.ConfigFile()
		must(t, err)
		c := file.Config
		at, err := time.Parse(time.RFC3339, date)
		must(t, err)
		if file.OS != "linux" || file.Architecture != arch || !file.Created.Equal(at) || c.User != "65532:65532" || c.StopSignal != "SIGTERM" ||
			!slices.Equal(c.Entrypoint, []string{"/usr/bin/outrider"}) || !slices.Equal(c.Cmd, []string{"run"}) ||
			!slices.Equal(c.Healthcheck.Test, []string{"CMD", "/usr/bin/outrider", "probe", "--live"}) ||
			!reflect.DeepEqual(c.ExposedPorts, map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}}) {
			t.Errorf("%s: %+v", arch, file)
		}
		for label, want := range map[string]string{"version": version, "revision": commit, "created": date, "licenses": "Apache-2.0",
			"source": "https://github.com/outriderhq/outrider"} {
			if got := c.Labels["org.opencontainers.image."+label]; got != want {
				t.Errorf("%s: label %s is %q, want %q", arch, label, got, want)
			}
		}
	}
}

// The layers have these files and no others, all of root but the state's folder, none with a mode that gives rights.
func TestTheImageHasItsFiles(t *testing.T) {
	t.Parallel()
	want := "etc/ 755 0\netc/group 644 0\netc/outrider/ 755 0\netc/passwd 644 0\netc/ssl/ 755 0\netc/ssl/certs/ 755 0\netc/ssl/certs/ca-certificates.crt 644 0\n" +
		"tmp/ 1777 0\nusr/ 755 0\nusr/bin/ 755 0\nusr/bin/outrider 755 0\nusr/share/ 755 0\nusr/share/go/ 755 0\n" +
		"usr/share/go/lib/ 755 0\nusr/share/go/lib/time/ 755 0\nusr/share/go/lib/time/zoneinfo.zip 644 0\nvar/ 755 0\nvar/lib/ 755 0\nvar/lib/outrider/ 700 65532"
	at, err := time.Parse(time.RFC3339, date)
	must(t, err)
	_, found := images(t)
	for arch, image := range found {
		var lines []string
		eachFile(t, image, func(h *tar.Header, content io.Reader) {
			lines = append(lines, fmt.Sprintf("%s %o %d", h.Name, h.Mode, h.Uid))
			if !h.ModTime.Equal(at) {
				t.Errorf("%s is of %s", h.Name, h.ModTime)
			}
			text, err := io.ReadAll(content)
			must(t, err)
			switch h.Name {
			case certificates:
				if n := strings.Count(string(text), "BEGIN CERTIFICATE"); n < 100 || !x509.NewCertPool().AppendCertsFromPEM(text) {
					t.Errorf("%d certificates", n)
				}
			case zones:
				if archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text))); err != nil || len(archive.File) < 400 {
					t.Errorf("time zones: %v", err)
				}
			case program:
				checkProgram(t, arch, text)
			}
		})
		slices.Sort(lines)
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s has\n%s\nwant\n%s", arch, got, want)
		}
	}
}

// checkProgram finds out whether the program is static, and of its architecture.
func checkProgram(t *testing.T, arch string, text []byte) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(text))
	must(t, err)
	libraries, err := file.ImportedLibraries()
	if machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; file.Machine != machine {
		t.Errorf("the program of %s is for %s", arch, file.Machine)
	}
	if len(libraries) > 0 || err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		t.Errorf("the program of %s needs %v: %v", arch, libraries, err)
	}
}

// eachFile calls a function with each entry of the image's layers.
func eachFile(t *testing.T, image v1.Image, do func(h *tar.Header, content io.Reader)) {
	t.Helper()
	layers, err := image.Layers()
	must(t, err)
	if len(layers) != 2 {
		t.Errorf("%d layers", len(layers))
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		must(t, err)
		r := tar.NewReader(content)
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			do(h, r)
		}
		must(t, content.Close())
	}
}

// A push has the digest of the file.
func TestTheImageIsPushed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo))))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://") + "/outrider:" + version
	when, err := time.Parse(time.RFC3339, date)
	must(t, err)
	must(t, run(made+".d", "", at, release{version: version, commit: commit, date: when, zones: zonesOf(t)}))
	ref, err := name.ParseReference(at)
	must(t, err)
	pushed, err := remote.Index(ref)
	must(t, err)
	got, err := pushed.Digest()
	must(t, err)
	index, _ := images(t)
	if want, err := index.Digest(); err != nil || got != want {
		t.Errorf("pushed %s, built %s (%v)", got, want, err)
	}
	if err := run("", "", at, release{}); err == nil {
		t.Error("a release without version and date was pushed")
	}
}

func zonesOf(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	return filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")
}
