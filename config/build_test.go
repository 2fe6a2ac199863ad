package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is made in Go is what the same file says, with its defaults.
func TestAConfigurationMadeInGoIsThatOfTheFile(t *testing.T) {
	t.Parallel()
	got, err := Build(Config{
		Memory: 128 << 20,
		Sources: map[string]Source{
			"app": &Postgres{URL: NewSecretURL("postgres://me:p%40ss@127.0.0.1/shop"), TableSource: TableSource{Poll: Poll{Max: Duration(time.Minute)}}},
		},
		Destinations: map[string]Destination{
			"bus": &Kafka{Brokers: []string{"127.0.0.1:9092"}, Topic: "orders"},
			"api": &HTTP{URL: "http://127.0.0.1:8000/x", Token: NewSecret("a${b}$$c"), Headers: map[string]Secret{"X-Key": NewSecret("k")}},
		},
		Routes: []Route{
			{Name: "zebra", From: "app", Targets: []string{"bus"}, Match: Match{Types: []Glob{glob(t, "order.*")}}},
			{Name: "ant", From: "app", Targets: []string{"api"}, Middleware: []Middleware{&Throttle{Rate: rate(t, "5/s")}, &Retry{Attempts: 3}}},
			{Name: "bare", From: "app", Targets: []string{"api"}, Middleware: []Middleware{}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := Parse("configuration", []byte(`
memory: 128MiB
sources:
  app: {type: postgres, url: "postgres://me:p%40ss@127.0.0.1/shop", poll: {max: 1m}}
destinations:
  bus: {type: kafka, brokers: ["127.0.0.1:9092"], topic: orders}
  api: {type: http, url: "http://127.0.0.1:8000/x", token: "a$${b}$$$$c", headers: {X-Key: k}}
routes:
  zebra: {from: app, to: bus, match: {types: ["order.*"]}}
  ant: {from: app, to: api, middleware: [throttle: 5/s, retry: {attempts: 3}]}
  bare: {from: app, to: api, middleware: []}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	got.Warnings, want.Warnings, got.Notes, want.Notes = nil, nil, nil, nil // with their places
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Destinations["api"].(*HTTP).Token.Reveal() != "a${b}$$c" {
		t.Error("a text of Go is not taken as it is")
	}
}

// A layout and a destination have defaults of their own, and what is set in Go goes before them.
func TestWhatIsSetInGoGoesBeforeThePresets(t *testing.T) {
	t.Parallel()
	usual := Poll{Batch: 5000, Min: Duration(time.Millisecond), After: 3, Factor: 2, Max: Duration(time.Second)}
	for _, poll := range []Poll{{Max: Duration(time.Second)}, usual} {
		got, err := Build(Config{
			Sources:      map[string]Source{"app": &Postgres{URL: NewSecretURL("postgres://me@127.0.0.1/x"), TableSource: TableSource{Layout: "outbox-framework", Poll: poll}}},
			Destinations: map[string]Destination{"out": &Webhook{URL: "https://example.com/", Secrets: []Secret{NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}}},
			Routes:       []Route{{Name: "r", From: "app", Targets: []string{"out"}, Middleware: []Middleware{&Retry{Attempts: 10}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		src, _ := got.Sources["app"].(*Postgres)
		retry, _ := got.Routes[0].Middleware[0].(*Retry)
		if src.Poll.Max.Std() != time.Second || poll == usual && src.Poll != usual || retry.Attempts != 10 {
			t.Errorf("poll %+v became %+v, retry %+v", poll, src.Poll, *retry)
		}
	}
}

// Every configuration of the test data that can be read comes back the same when it
// is built again from what was read.
func TestEveryConfigurationCanBeMadeInGo(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(src); strings.Contains(text, "_file:") || strings.Contains(text, "flowcatalyst") {
			continue // a file's content is not its path; FlowCatalyst's jitter is 0, which is the default in Go
		}
		first, err := Parse(file, src, testEnv)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		again, err := Build(*first)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		first.Warnings, again.Warnings, first.Notes, again.Notes = nil, nil, nil, nil // with their places
		if !reflect.DeepEqual(first, again) {
			t.Errorf("%s:\n%+v\n%+v", file, first, again)
		}
	}
}

func TestWhatIsWrongInGoIsNamedByItsPath(t *testing.T) {
	t.Parallel()
	_, err := Build(Config{
		Sources:      map[string]Source{"app": &SQLite{Path: "a.db"}, "other": nil},
		Destinations: map[string]Destination{"log": &LogTo{}},
		Routes:       []Route{{Name: "all", From: "ap", Targets: []string{"log"}}},
	})
	var found *Errors
	if !errors.As(err, &found) || !strings.Contains(err.Error(), "routes.all.from") || !strings.Contains(err.Error(), `did you mean "app"`) {
		t.Errorf("got %v", err)
	}
	_, err = Build(Config{Admin: Admin{Tokens: []Secret{NewSecret("x")}}})
	if err == nil || !strings.Contains(err.Error(), "admin.tokens_file: the content of a file cannot be given in Go") {
		t.Errorf("got %v", err)
	}
}

func glob(t *testing.T, text string) Glob {
	t.Helper()
	g, err := ParseGlob(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func rate(t *testing.T, text string) Rate {
	t.Helper()
	r, err := ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
