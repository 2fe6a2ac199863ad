// Command image builds Outrider's container image without a container engine: an OCI layout in a tar file, with one image for each
// platform. The same binaries and date give the same digests. `make image` calls it.
//
// The image begins from nothing instead of from a base image. A static binary needs certificates, time zones and a user of its base, which
// [files] writes from versions that go.sum pins: no registry is asked, and no other distribution's files need updates.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	var r release
	binaries := flag.String("binaries", "", "`folder` with linux_amd64/outrider and linux_arm64/outrider")
	out := flag.String("out", "", "tar `file` to write; empty: none")
	push := flag.String("push", "", "`reference` to push to, such as ghcr.io/outriderhq/outrider:v0.1.0, with the logins of docker login; empty: nowhere")
	flag.StringVar(&r.zones, "zones", "", "`file` with the time zones: lib/time/zoneinfo.zip of Go")
	flag.StringVar(&r.version, "version", "", "version of the release")
	flag.StringVar(&r.commit, "commit", "", "commit that it was built from")
	flag.Func("date", "`time` of the commit, RFC 3339: the time of all files", func(text string) (err error) {
		r.date, err = time.Parse(time.RFC3339, text)
		return err
	})
	flag.Parse()
	if err := run(*binaries, *out, *push, r); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(binaries, out, push string, r release) error {
	if r.date.IsZero() || r.version == "" || binaries == "" {
		return errors.New("-binaries, -version and -date are needed")
	}
	index, err := build(binaries, r)
	if err != nil {
		return err
	}
	if out != "" {
		if err := write(index, out, r); err != nil {
			return err
		}
	}
	if push != "" {
		ref, err := name.ParseReference(push)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(ref, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return err
		}
	}
	digest, err := index.Digest()
	if err == nil {
		fmt.Println(digest)
	}
	return err
}

// write makes a tar file of the index as an OCI layout.
func write(index v1.ImageIndex, out string, r release) (err error) {
	dir, err := os.MkdirTemp("", "outrider-image-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path, err := layout.Write(dir, emptyIndex())
	if err != nil {
		return err
	}
	names := map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": repository + ":" + r.version}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	var entries []entry
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, at fs.DirEntry, err error) error {
		e := entry{name: name, mode: 0o755}
		if err == nil && !at.IsDir() {
			e.mode = 0o644
			e.content, err = os.ReadFile(filepath.Join(dir, name))
		}
		if name != "." {
			entries = append(entries, e)
		}
		return err
	})
	if err != nil {
		return err
	}
	text, err := archive(entries, r.date)
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644) //nolint:gosec // no secret
}
