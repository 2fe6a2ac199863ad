package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// release is what is built.
type release struct {
	version, commit, zones string
	date                   time.Time
}

// repository is where releases are.
const repository = "ghcr.io/outriderhq/outrider"

// user is nonroot, by number: an orchestrator that refuses root cannot resolve names.
const user = 65532

// Where the files of the image are.
const (
	program      = "usr/bin/outrider"
	certificates = "etc/ssl/certs/ca-certificates.crt"
	goRoot       = "usr/share/go" // below which the program finds the zone of TZ, in one file
	zones        = goRoot + "/lib/time/zoneinfo.zip"
	config       = "etc/outrider/outrider.yaml" // which the image does not have
	state        = "var/lib/outrider"           // the working directory, for SQLite files with relative paths
)

func emptyIndex() v1.ImageIndex { return mutate.IndexMediaType(empty.Index, types.OCIImageIndex) }

// build makes the index with an image for each platform.
func build(binaries string, r release) (v1.ImageIndex, error) {
	index := emptyIndex()
	for _, arch := range []string{"amd64", "arm64"} {
		binary, err := os.ReadFile(filepath.Join(binaries, "linux_"+arch, "outrider"))
		if err != nil {
			return nil, err
		}
		image, err := buildImage(arch, binary, r)
		if err != nil {
			return nil, err
		}
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	annotated, ok := mutate.Annotations(index, labels(r)).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("annotating the index did not return an index")
	}
	return annotated, nil
}

func buildImage(arch string, binary []byte, r release) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err := files(r.zones)
	if err != nil {
		return nil, err
	}
	// The base is a layer of its own, which stays the same from release to release.
	for _, part := range []struct {
		what    string
		entries []entry
	}{{"certificates, time zones, user", base}, {"outrider", []entry{{name: program, mode: 0o755, content: binary}}}} {
		text, err := archive(part.entries, r.date)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "deploy/image", Comment: part.what}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history, MediaType: types.OCILayer}); err != nil {
			return nil, err
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, settings(file.DeepCopy(), arch, r))
}

// settings completes the image's configuration.
func settings(file *v1.ConfigFile, arch string, r release) *v1.ConfigFile {
	file.OS, file.Architecture, file.Created, file.Author = "linux", arch, v1.Time{Time: r.date}, "Outrider"
	file.Config = v1.Config{
		User: "65532:65532", WorkingDir: "/" + state, StopSignal: "SIGTERM",
		Entrypoint: []string{"/" + program}, Cmd: []string{"run"},
		Env:          []string{"PATH=/usr/bin", "HOME=/" + state, "OUTRIDER_CONFIG=/" + config, "GOROOT=/" + goRoot},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}}, // admin.listen, admin.probes
		Labels:       labels(r),
		// Live and not ready: some orchestrators restart what is unhealthy, and a relay waits an outage out.
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/" + program, "probe", "--live"},
			Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second, Retries: 3},
	}
	return file
}

func labels(r release) map[string]string {
	const project = "https://github.com/outriderhq/outrider"
	return map[string]string{
		"org.opencontainers.image.title":         "outrider",
		"org.opencontainers.image.description":   "A transactional-outbox relay",
		"org.opencontainers.image.url":           project,
		"org.opencontainers.image.source":        project,
		"org.opencontainers.image.documentation": project + "/blob/main/docs/deploy.md",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.vendor":        "outriderhq",
		"org.opencontainers.image.version":       r.version,
		"org.opencontainers.image.revision":      r.commit,
		"org.opencontainers.image.created":       r.date.UTC().Format(time.RFC3339),
	}
}

// entry is a file, or a folder if it has no content.
type entry struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// files are those of the base layer, folders before what is in them.
func files(zonesFile string) ([]entry, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a file of certificates cannot say for which of its chains a root counts
			if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return nil, err
			}
		}
	}
	zoneinfo, err := os.ReadFile(zonesFile)
	if err != nil {
		return nil, err
	}
	var list []entry
	for _, folder := range []string{"etc", "etc/outrider", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin", "usr/share", goRoot, goRoot + "/lib", goRoot + "/lib/time", "var", "var/lib"} {
		list = append(list, entry{name: folder, mode: 0o755})
	}
	return append(list,
		entry{name: "tmp", mode: 0o1777},
		entry{name: state, mode: 0o700, owner: user},
		entry{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/var/lib/outrider:/sbin/nologin\n")},
		entry{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		entry{name: certificates, mode: 0o644, content: roots.Bytes()},
		entry{name: zones, mode: 0o644, content: zoneinfo},
	), nil
}

// archive writes entries as a layer.
func archive(entries []entry, date time.Time) ([]byte, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.content)), ModTime: date}
		if e.content == nil {
			header.Typeflag, header.Name = tar.TypeDir, e.name+"/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return text.Bytes(), err
}
