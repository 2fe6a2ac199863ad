package operate

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// Build says what this program was built from.
type Build struct {
	Version string `json:"version"`          // of the module; "(devel)" in a work tree without version
	Commit  string `json:"commit,omitempty"` // revision, if the build knew it
	Dirty   bool   `json:"dirty,omitempty"`  // the work tree had changes
	Go      string `json:"go"`               // version of Go, with system and architecture
}

// Version returns what this program was built from. In a program that embeds
// Outrider the version is that of the module it requires.
func Version() Build {
	b := Build{Version: "(devel)", Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	const module = "github.com/outriderhq/outrider"
	if info.Main.Path == module {
		b.Version = cmp.Or(info.Main.Version, b.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Dirty = s.Value == "true"
			}
		}
		return b
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			b.Version = dep.Version
		}
	}
	return b
}
