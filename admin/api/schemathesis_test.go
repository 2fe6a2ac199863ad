package api_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// schemathesisEnv asks for the test below; `make api-check` sets it. It takes a minute, and Python with a package from PyPI, so CI
// does without.
const schemathesisEnv = "OUTRIDER_TEST_SCHEMATHESIS"

// What the API answers is what its document says, whatever is asked.
func TestTheDocumentIsTrue(t *testing.T) {
	t.Parallel()
	if os.Getenv(schemathesisEnv) == "" {
		t.Skipf("%s is not set: it installs schemathesis and takes minutes", schemathesisEnv)
	}
	s := onSQLite(t)
	s.publish("bad-1", `{"customer": "bad"}`)
	s.until("bad-1 is dead", func() bool { return s.count(parkedSQL+" WHERE status = 'dead'") == 1 })
	script, err := filepath.Abs("../../tools/schemathesis.sh")
	must(t, err)
	c := exec.CommandContext(t.Context(), script, "http://"+s.relay.AdminAddress(), tokens["admin"],
		"--max-examples", "10", "--workers", "2", "--seed", "1", "--generation-database", "none")
	c.Dir = t.TempDir() // where it keeps what it has seen
	out, err := c.CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == 3 {
		t.Skipf("schemathesis cannot be installed: %s", out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
