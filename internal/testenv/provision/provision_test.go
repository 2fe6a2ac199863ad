package provision

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program writes a shell script that replaces a program.
func program(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestPostgresOfTheEnvironmentIsCheckedForItsVersion(t *testing.T) {
	for name, test := range map[string]struct{ prints, wantErr string }{
		"new enough": {"postgres (PostgreSQL) 16.2 (Some 16.2-1)", ""},
		"too old":    {"postgres (PostgreSQL) 12.9", "PostgreSQL 12 is too old, 13 is the oldest"},
		"other":      {"something else", "cannot read the version"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program(t, dir, "initdb", "exit 0")
			program(t, dir, "postgres", "echo '"+test.prints+"'")
			t.Setenv(EnvPostgresBin, dir)
			got, err := Host{}.Postgres(t.Context())
			if test.wantErr == "" {
				if err != nil || got != dir {
					t.Fatalf("got %q, %v; want %q", got, err, dir)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.wantErr) || !strings.Contains(err.Error(), EnvPostgresBin) {
				t.Errorf("got error %v, want one with %q and the variable", err, test.wantErr)
			}
		})
	}
}

func TestKafkaJarsOfTheEnvironmentMustHoldABroker(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(EnvKafkaJars, dir)
	if _, err := (Host{}).kafkaJars(t.Context()); err == nil || !strings.Contains(err.Error(), EnvKafkaJars) {
		t.Errorf("got error %v, want one that names %s", err, EnvKafkaJars)
	}
	program(t, dir, "kafka_2.13-3.9.1.jar", "")
	if got, err := (Host{}).kafkaJars(t.Context()); err != nil || got != dir {
		t.Errorf("got %q, %v; want %q", got, err, dir)
	}
}

func TestJavaIsTakenFromJavaHomeUnlessTooOld(t *testing.T) {
	home, path := t.TempDir(), t.TempDir()
	t.Setenv("JAVA_HOME", home)
	t.Setenv("PATH", path+":/usr/bin:/bin")
	program(t, path, "java", `echo 'openjdk version "21.0.1" 2023-10-17' >&2`)

	bin := filepath.Join(home, "bin")
	program(t, bin, "java", `echo 'openjdk version "17.0.15" 2025-04-15' >&2`)
	if got, err := findJava(t.Context()); err != nil || got != filepath.Join(bin, "java") {
		t.Errorf("got %q, %v; want JAVA_HOME's", got, err)
	}
	program(t, bin, "java", `echo 'java version "1.8.0_412"' >&2`)
	if got, err := findJava(t.Context()); err != nil || got != filepath.Join(path, "java") {
		t.Errorf("got %q, %v; want PATH's, since Java 8 is too old", got, err)
	}
	program(t, path, "java", "exit 1")
	if got, err := findJava(t.Context()); err == nil {
		t.Errorf("got %q where there is none that works", got)
	}
}

func TestFillLeavesAllOrNothing(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "cache", "thing-1")
	failure := errors.New("the network is down")
	write := func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600)
	}
	err := fill(target, func(dir string) error { return errors.Join(write(dir), failure) })
	if !errors.Is(err, failure) {
		t.Errorf("got error %v, want the download's", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(target)); len(left) != 0 {
		t.Errorf("a failed download left %v", left)
	}
	for range 2 { // the second as if another process had been faster
		if err := fill(target, write); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(target, "file")); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(target)); len(left) != 1 {
		t.Errorf("the cache holds %v, want one folder", left)
	}
}

func TestFailedInstallersShowTheEndOfTheirOutput(t *testing.T) {
	t.Parallel()
	var said []string
	h := Host{Say: func(format string, _ ...any) { said = append(said, format) }}
	err := h.run(t.Context(), "installing x", exec.CommandContext(t.Context(), "sh", "-c", "echo no such package; exit 100"))
	if err == nil || !strings.Contains(err.Error(), "installing x") || !strings.Contains(err.Error(), "no such package") {
		t.Errorf("got error %v, want the step and its output", err)
	}
	if len(said) == 0 {
		t.Error("nothing was said before the step")
	}
}

func TestWhatIsMissingIsNamedWithItsSize(t *testing.T) {
	t.Setenv(EnvPostgresBin, "/somewhere")
	t.Setenv(EnvKafkaJars, "")
	if got := (Host{}).MissingPostgres(t.Context()); len(got) != 0 {
		t.Errorf("of a PostgreSQL that the environment names: %q", got)
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := t.TempDir() // no program
	t.Setenv("PATH", path)
	t.Setenv("JAVA_HOME", path)
	program(t, path, "apt-get", "exit 1")
	cache, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	there := hasBroker(filepath.Join(cache, "kafka-"+kafkaVersion)) // root's cache is the machine's
	got := strings.Join(Host{}.MissingKafka(t.Context()), "\n")
	for what, want := range map[string]bool{
		"package " + javaPackage + ", with apt, about 45 MB": hasApt(),
		"package maven, with apt, about 15 MB":               hasApt() && !there,
		"the jars of Kafka " + kafkaVersion:                  !there,
		cache + ", about 60 MB":                              !there,
	} {
		if strings.Contains(got, what) != want {
			t.Errorf("%q is named: %t, want %t:\n%s", what, !want, want, got)
		}
	}
}

func TestMariaDBIsFoundWithTheStatementsOfItsVersion(t *testing.T) {
	for statements, prints := range map[string]string{"mysql_system_tables.sql": "10.11.5", "mariadb_system_tables.sql": "11.4.5"} {
		dir := t.TempDir()
		program(t, filepath.Join(dir, "bin"), "mariadbd", "echo 'mariadbd  Ver "+prints+"-MariaDB for Linux'")
		t.Setenv(EnvMariaDB, filepath.Join(dir, "bin", "mariadbd"))
		if _, err := (Host{}).MariaDB(t.Context()); err == nil || !strings.Contains(err.Error(), "system_tables.sql") {
			t.Errorf("%s: without statements: %v", prints, err)
		}
		program(t, filepath.Join(dir, "share"), statements, "")
		if got, err := (Host{}).MariaDB(t.Context()); err != nil || got.Share != filepath.Join(dir, "share") {
			t.Errorf("%s: %+v, %v", prints, got, err)
		}
	}
}

func TestSeriesOfMariaDBThatMavenLacks(t *testing.T) {
	t.Parallel()
	if _, err := (Host{}).MariaDBSeries(t.Context(), "9.7"); err == nil || !strings.Contains(err.Error(), "[10.11 11.4]") {
		t.Errorf("got %v, want the series that there are", err)
	}
}
