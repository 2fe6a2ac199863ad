package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// A release says what its linker was given, a build of the work tree what the go command recorded, and a program that embeds Outrider the version of
// the module: its own commit and date are not Outrider's.
func TestFrom(t *testing.T) {
	const module = "github.com/outriderhq/outrider"
	vcs := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.time", Value: "2026-11-27T01:02:03Z"}, {Key: "vcs.modified", Value: "true"},
	}
	own := &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.1-0.20261127"}, Settings: vcs}
	for name, test := range map[string]struct {
		info                  *debug.BuildInfo
		version, commit, date string // of the linker
		want                  Build
	}{
		"work tree": {info: own, want: Build{Version: "v0.1.1-0.20261127", Commit: "c0ffee", Date: "2026-11-27T01:02:03Z", Dirty: true}},
		"release": {info: own, version: "v0.1.0", commit: "decade", date: "2026-11-28T00:00:00Z",
			want: Build{Version: "v0.1.0", Commit: "decade", Date: "2026-11-28T00:00:00Z", Dirty: true}},
		"without version": {info: &debug.BuildInfo{Main: debug.Module{Path: module}}, want: Build{Version: "(devel)"}},
		"embedded": {info: &debug.BuildInfo{Main: debug.Module{Path: "example.org/shop", Version: "v3.0.0"}, Settings: vcs,
			Deps: []*debug.Module{{Path: "example.org/other", Version: "v9.9.9"}, {Path: module, Version: "v0.1.0"}}}, want: Build{Version: "v0.1.0"}},
		"unknown": {want: Build{Version: "(devel)"}},
	} {
		t.Run(name, func(t *testing.T) {
			version, commit, date = test.version, test.commit, test.date
			t.Cleanup(func() { version, commit, date = "", "", "" })
			test.want.Go, test.want.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
			if got := from(test.info); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestString(t *testing.T) {
	b := Build{Version: "v0.1.0", Commit: "c0ffee", Date: "2026-11-27T01:02:03Z", Dirty: true, Go: "go1.26.0", Platform: "linux/amd64"}
	if got, want := b.String(), "outrider v0.1.0\ncommit c0ffee with changes\ndate 2026-11-27T01:02:03Z\ngo1.26.0 linux/amd64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b = Build{Version: "(devel)", Go: "go1.26.0", Platform: "linux/amd64"}
	if got, want := b.String(), "outrider (devel)\ncommit unknown\ndate unknown\ngo1.26.0 linux/amd64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
