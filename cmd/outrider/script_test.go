package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"

	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/natsserver"
)

// servers are those of the scripts that need one, by their names; the address is in $SERVER.
var servers = map[string]func(*testing.T) string{
	"sqlite":   func(*testing.T) string { return "" },
	"postgres": func(t *testing.T) string { return testenv.Postgres(t) },
	"mariadb":  func(t *testing.T) string { return testenv.MySQL(t) },
	"nats":     func(t *testing.T) string { return natsserver.Start(t, nil).ClientURL() },
}

// succeeded has the commands that have exited with 0, and of which the answer conformed to the contract.
type succeeded struct {
	sync.Mutex
	commands map[string]bool
}

// The scripts of testdata/script call the program as scripts of operators do, each on servers of its own. They have these commands of ours:
//
//	exits CODE outrider ARGS...    call it, compare the exit code, and an answer with its contract
//	until TEXT outrider ARGS...    call it until its output has a match
//	field NAME PATH                set a variable from the latest answer
//	sql STATEMENT                  what the application does, in MariaDB
func TestScripts(t *testing.T) {
	t.Parallel()
	seen := &succeeded{commands: map[string]bool{}}
	all := t.Run("all", func(t *testing.T) {
		files, err := filepath.Glob("testdata/script/*.txtar")
		if err != nil || len(files) == 0 {
			t.Fatal(err, files)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				server := servers[strings.TrimSuffix(filepath.Base(file), ".txtar")](t)
				testscript.Run(t, testscript.Params{Files: []string{file}, Setup: func(e *testscript.Env) error { return prepare(t, e, server) },
					Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": seen.exits, "until": until, "field": setField, "sql": inMariaDB}})
			})
		}
	})
	if !all || testing.Short() {
		return
	}
	for path := range contracts {
		if path == "run" || path == "probe" { // in the background, where scripts wait for its end with 0; TestProbeAsksTheRelayThatRuns
			continue
		}
		if !seen.commands[path] {
			t.Errorf("no script has called outrider %s and seen it succeed, with -o json if it has that", path)
		}
	}
}

// prepare gives a script the program, its server, and a receiver that refuses messages until the file accept exists.
func prepare(t *testing.T, e *testscript.Env, server string) error {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if _, err := os.Stat(filepath.Join(e.WorkDir, "accept")); err != nil {
			http.Error(w, "no thanks", http.StatusUnprocessableEntity)
		}
	}))
	t.Cleanup(receiver.Close)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin := filepath.Join(e.WorkDir, ".bin")
	e.Setenv("SERVER", server)
	e.Setenv("RECEIVER", receiver.URL)
	e.Setenv(asProgram, "1")
	e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
	return errors.Join(os.Mkdir(bin, 0o700), os.Symlink(self, filepath.Join(bin, "outrider")))
}

// exits is `exits CODE outrider ARGS...`.
func (s *succeeded) exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, failed := 0, (*exec.ExitError)(nil)
	if err = ts.Exec(args[1], args[2:]...); errors.As(err, &failed) {
		got, err = failed.ExitCode(), nil
	}
	ts.Check(err)
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	path := commandOf(args[2:])
	k := contracts[path]
	out := ts.ReadFile("stdout")
	machine := strings.Contains(strings.Join(args, " ")+" ", " -o json ")
	if machine && out == "" && want == exitOK {
		ts.Fatalf("no answer")
	}
	if machine && out != "" {
		for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
			var answer any
			ts.Check(d.Decode(&answer))
			if found := nonconforming(reflect.TypeOf(k.answer), answer, path); len(found) > 0 {
				ts.Fatalf("the answer is not what docs/cli.md says:\n%s", strings.Join(found, "\n"))
			}
		}
	}
	if want == exitOK && machine == (k.answer != nil) {
		s.Lock()
		defer s.Unlock()
		s.commands[path] = true
	}
}

// commandOf is the path of the command that arguments begin with.
func commandOf(args []string) string {
	path := ""
	for i := 1; i <= min(2, len(args)); i++ {
		if _, ok := contracts[strings.Join(args[:i], " ")]; ok {
			path = strings.Join(args[:i], " ")
		}
	}
	return path
}

// until is `until TEXT outrider ARGS...`.
func until(ts *testscript.TestScript, _ bool, args []string) {
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %q", args[0])
		}
	}
}

// setField is `field NAME PATH`.
func setField(ts *testscript.TestScript, _ bool, args []string) {
	value := gjson.Get(ts.ReadFile("stdout"), args[1])
	if !value.Exists() {
		ts.Fatalf("the answer has no %s", args[1])
	}
	ts.Setenv(args[0], value.String())
}

// inMariaDB is `sql STATEMENT`.
func inMariaDB(ts *testscript.TestScript, _ bool, args []string) {
	db, err := mysql.Open(ts.Getenv("SERVER"), mysql.TLS{})
	ts.Check(err)
	_, err = db.ExecContext(context.Background(), args[0])
	ts.Check(errors.Join(err, db.Close()))
}

// An answer that lacks a field, has another type or an unknown field does not conform.
func TestNonconformingAnswersAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"id": "a", "source": "app", "routes": ["orders"]}`:                `[]`,
		`{"id": "a", "source": "app"}`:                                      `[publish.routes is missing]`,
		`{"id": 1, "source": "app", "routes": []}`:                          `[publish.id is 1, want string]`,
		`{"id": "a", "source": "app", "routes": null}`:                      `[publish.routes is <nil>, want list of strings]`,
		`{"id": "a", "source": "app", "routes": [7]}`:                       `[publish.routes[] is 7, want string]`,
		`{"id": "a", "source": {}, "routes": []}`:                           `[publish.source is an object, want string]`,
		`{"id": "a", "source": "app", "routes": [], "secret": "something"}`: `[publish.secret is not documented]`,
	} {
		var answer any
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(nonconforming(reflect.TypeFor[publishAnswer](), answer, "publish")); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
