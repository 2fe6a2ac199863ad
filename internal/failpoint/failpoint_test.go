package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// stepsEnv has the test's own program pass some steps instead of testing.
const stepsEnv = "FAILPOINT_TEST_STEPS"

func TestMain(m *testing.M) {
	steps, ok := os.LookupEnv(stepsEnv)
	if !ok {
		os.Exit(m.Run())
	}
	if _, err := Armed(); err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(2)
	}
	for step := range strings.FieldsSeq(steps) {
		Hit(Point(step))
		_, _ = os.Stdout.WriteString(step + " ")
	}
	os.Exit(0)
}

func TestTheProcessIsKilledAtItsStep(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env, passed string
		killed      bool
		wrong       string
	}{
		"off":              {env: "", passed: "fetched before-send fetched after-send "},
		"another step":     {env: "release", passed: "fetched before-send fetched after-send "},
		"the first time":   {env: "fetched", killed: true},
		"the second time":  {env: "fetched:2", passed: "fetched before-send ", killed: true},
		"not often enough": {env: "fetched:3", passed: "fetched before-send fetched after-send "},
		"no such step":     {env: "lunch", wrong: "is no step: use one of [acquired fetched"},
		"no such count":    {env: "fetched:often", wrong: `"often" is no count`},
		"a count below 1":  {env: "fetched:0", wrong: `"0" is no count`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), Env+"="+tt.env, stepsEnv+"=fetched before-send fetched after-send")
			var complaint strings.Builder
			cmd.Stderr = &complaint
			out, err := cmd.Output()
			exit := (*exec.ExitError)(nil)
			killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
			if string(out) != tt.passed || killed != tt.killed || tt.wrong == "" && !killed && err != nil {
				t.Errorf("it passed %q and ended with %v", out, err)
			}
			if !strings.Contains(complaint.String(), tt.wrong) || tt.wrong == "" && complaint.Len() > 0 {
				t.Errorf("it says %q, want %q", &complaint, tt.wrong)
			}
		})
	}
}

func BenchmarkOff(b *testing.B) {
	for b.Loop() {
		Hit(Fetched)
	}
}
