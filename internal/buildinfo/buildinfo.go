// Package buildinfo says what this program was built from. Releases set it by flags of the linker; other builds know what the go command records.
package buildinfo

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// A release sets these: -ldflags "-X github.com/outriderhq/outrider/internal/buildinfo.version=v0.1.0" (.goreleaser.yaml).
var version, commit, date string

// Build says what this program was built from.
type Build struct {
	Version  string `json:"version"`          // tag of a release, such as v0.1.0; else of the module: "(devel)" without one
	Commit   string `json:"commit,omitempty"` // revision, if the build knew it
	Date     string `json:"date,omitempty"`   // of the commit, RFC 3339, if the build knew it
	Dirty    bool   `json:"dirty,omitempty"`  // the work tree had changes
	Go       string `json:"go"`               // version of Go
	Platform string `json:"platform"`         // system and architecture, such as linux/amd64
}

// Read returns what this program was built from. In a program that embeds Outrider the version is that of the module it requires, and
// commit and date, which would be those of the program, are empty.
func Read() Build {
	info, _ := debug.ReadBuildInfo()
	return from(info)
}

func from(info *debug.BuildInfo) Build {
	b := Build{Version: version, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		info = &debug.BuildInfo{}
	}
	const module = "github.com/outriderhq/outrider"
	if info.Main.Path != module {
		for _, dep := range info.Deps {
			if dep.Path == module {
				b.Version = cmp.Or(b.Version, dep.Version)
			}
		}
		b.Version = cmp.Or(b.Version, "(devel)")
		return b
	}
	b.Version = cmp.Or(b.Version, info.Main.Version, "(devel)")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(b.Commit, s.Value)
		case "vcs.time":
			b.Date = cmp.Or(b.Date, s.Value)
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	return b
}

// String is what `outrider version` prints, without the end of the last line.
func (b Build) String() string {
	commit := cmp.Or(b.Commit, "unknown")
	if b.Dirty {
		commit += " with changes"
	}
	return fmt.Sprintf("outrider %s\ncommit %s\ndate %s\n%s %s", b.Version, commit, cmp.Or(b.Date, "unknown"), b.Go, b.Platform)
}
