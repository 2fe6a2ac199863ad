package faults_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// The builds that upgrades are tested from.
const (
	// formerCommit is the last commit before the packages were divided differently. It has fewer migrations.
	formerCommit = "f6105767e16090ba1bb8005257d730f92789a744"

	// previousCommit is the last one before 0.1.0: the build that a release is upgraded from.
	previousCommit = "87d0d808a354d5dc3335d45999cea365a4bf9710"

	// anchorlessCommit is one that moves cursors and keeps no anchors: those that others have written stay as they are.
	anchorlessCommit = "c54887aa7f9bbbe0da3ceb9ec45ff82db1f3168f"
)

// upgradeEnv is the environment variable that has upgrades tested: `make test-upgrade`
// sets it.
const upgradeEnv = "OUTRIDER_TEST_UPGRADE"

// former, previous and anchorless are the programs.
var former, previous, anchorless build

// formerProgram returns the path of the program of [formerCommit].
func formerProgram(t *testing.T) string {
	t.Helper()
	return programOf(t, &former, formerCommit)
}

// programOf returns the path of the build of a commit. It skips the test unless
// upgrades are tested: the former build has other versions of its dependencies, which
// may take a minute to compile.
func programOf(t *testing.T, of *build, commit string) string {
	t.Helper()
	if os.Getenv(upgradeEnv) == "" && !testenv.Soaking() {
		t.Skip("builds the former program, which may take a minute: run make test-upgrade")
	}
	if err := exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		t.Skipf("commit %.10s is not in this checkout (%v): run git fetch --unshallow", commit, err)
	}
	return of.path(t, func(dir, binary string) error {
		sources, archive := filepath.Join(dir, "sources"), filepath.Join(dir, "sources.tar")
		if err := os.Mkdir(sources, 0o700); err != nil {
			return err
		}
		top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
		if err != nil {
			return fmt.Errorf("find the root of the repository: %w", err)
		}
		root := string(top[:len(top)-1]) // without the newline
		if err := run(root, nil, "git", "archive", "-o", archive, commit); err != nil {
			return err
		}
		if err := run(sources, nil, "tar", "-xf", archive); err != nil {
			return err
		}
		// It is a module alone, and not one of ours.
		return run(sources, []string{"GOWORK=off"}, "go", "build", "-trimpath", "-o", binary, "./cmd/outrider")
	})
}

// run runs a command in a directory; an error has its output.
func run(dir string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}
