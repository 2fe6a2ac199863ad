package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/outriderhq/outrider/bench/measure"
)

// build is a build of this program, with Outrider as it was at a commit. The zero value is this program itself.
type build struct {
	name    string // the commit
	folder  string // the root of its tree
	program string
}

// harnessFolders have the benchmark and what it uses of the test environment. Both builds have those of the working
// tree, so that they differ in Outrider only, and understand the same jobs.
var harnessFolders = []string{"bench", filepath.Join("internal", "testenv")}

// buildBoth builds the revision and the working tree, whose root is the folder. Remove removes what it has made.
func buildBoth(ctx context.Context, root, revision string, say func(format string, args ...any)) (builds []build, remove func() error, err error) {
	folder, err := os.MkdirTemp("", "outrider-bench-")
	if err != nil {
		return nil, nil, err
	}
	tree := filepath.Join(folder, "tree")
	remove = func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(runIn(ctx, root, "git", "worktree", "remove", "--force", tree), os.RemoveAll(folder))
	}
	if err := runIn(ctx, root, "git", "worktree", "add", "--quiet", "--detach", tree, revision); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	name := measure.Commit(ctx, tree)
	for _, sub := range harnessFolders {
		if err := replaceCode(filepath.Join(tree, sub), filepath.Join(root, sub)); err != nil {
			return nil, nil, errors.Join(err, remove())
		}
	}
	for _, from := range []struct{ name, folder string }{{name, tree}, {"working tree", root}} {
		b := build{name: from.name, folder: from.folder, program: filepath.Join(folder, "bench-"+strings.ReplaceAll(from.name, " ", "-"))}
		say("building %s", b.name)
		if err := b.make(ctx); err != nil {
			err = fmt.Errorf("build the benchmark with Outrider at %s: %w; where it lacks what the benchmark uses, take a later revision", from.name, err)
			return nil, nil, errors.Join(err, remove())
		}
		builds = append(builds, b)
	}
	return builds, remove, nil
}

// make builds the program. It is a copy of the linker's file: the system keeps that in pages of any size, so the
// resident memory of equal programs differed by up to 13 MiB, and that of copies by less than one.
func (b *build) make(ctx context.Context) (err error) {
	linked := b.program + "-linked"
	if err := runIn(ctx, b.folder, "go", "build", "-o", linked, "./bench"); err != nil {
		return err
	}
	from, err := os.Open(linked)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close(), os.Remove(linked)) }()
	to, err := os.OpenFile(b.program, os.O_CREATE|os.O_WRONLY, 0o700) //nolint:gosec // it is run
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// replaceCode replaces a folder by a copy of another, but for the modules that it requires.
func replaceCode(folder, by string) error {
	kept := map[string][]byte{}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			kept[name] = text
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(folder), os.CopyFS(folder, os.DirFS(by))); err != nil {
		return err
	}
	for name, text := range kept {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// runIn runs a program in a folder. Its error has what the program has printed.
func runIn(ctx context.Context, folder, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // git and go, on our own folders
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}
