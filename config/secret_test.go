package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/outriderhq/outrider/config/internal/form"
)

// plant puts the canary into every secret that a value can hold, and returns
// how many there were.
func plant(v reflect.Value) int {
	if s, ok := reflect.TypeAssert[Secret](v); ok && s.IsZero() {
		v.Set(reflect.ValueOf(NewSecret(canary)))
		return 1
	}
	if u, ok := reflect.TypeAssert[SecretURL](v); ok && u.IsZero() {
		v.Set(reflect.ValueOf(NewSecretURL("postgres://app:" + canary + "@db/app?password=" + canary)))
		return 1
	}
	n := 0
	switch v.Kind() {
	case reflect.Struct:
		if _, ok := form.SpellingOf(v.Type()); ok {
			return 0
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n += plant(v.Field(i))
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		n = plant(v.Elem())
	case reflect.Slice:
		if r := declaration.Registry(v.Type().Elem()); r != nil {
			for _, k := range r.Kinds {
				v.Set(reflect.Append(v, r.New(k.Zero.Kind())))
				n += plant(v.Index(v.Len() - 1).Elem())
			}
			return n
		}
		if v.Type().Elem() == reflect.TypeFor[*Error]() {
			return 0
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		n = plant(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if r := declaration.Registry(v.Type().Elem()); r != nil {
			for _, k := range r.Kinds {
				made := r.New(k.Zero.Kind())
				n += plant(made)
				v.SetMapIndex(reflect.ValueOf(k.Zero.Kind()), made)
			}
			return n
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		n = plant(elem)
		v.SetMapIndex(reflect.Zero(v.Type().Key()), elem)
	}
	return n
}

// TestG12_PrintingShowsNoSecret plants the canary into every secret field that
// the declaration has and prints the configuration in all ways there are.
func TestG12_PrintingShowsNoSecret(t *testing.T) {
	t.Parallel()
	cfg := &Config{}
	if n := plant(reflect.ValueOf(cfg).Elem()); n != 30 {
		t.Fatalf("%d secrets planted; a new secret field raises the number in this test", n)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", cfg, "sources", cfg.Sources)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", cfg, "sources", cfg.Sources, "destinations", cfg.Destinations)
	asJSON, err := json.Marshal([]any{cfg.Sources, cfg.Destinations})
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(cfg.Destinations)
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{
		"Redacted": cfg.Redacted(), "slog": log.String(), "JSON": string(asJSON), "YAML": string(asYAML),
	}
	kafka, http := cfg.Destinations["kafka"].(*Kafka), cfg.Destinations["http"].(*HTTP)
	private := struct{ s Secret }{NewSecret(canary)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		outputs[verb] = fmt.Sprintf(strings.Repeat(verb, 9), cfg, *cfg, cfg.Sources["postgres"], kafka, *kafka.SASL, *http, http.Token, cfg.State, private)
	}
	for name, text := range outputs {
		if strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) {
			t.Errorf("%s shows a secret:\n%s", name, text)
		}
	}
	if !strings.Contains(cfg.Redacted(), `"postgres://app:***@db/app?***"`) {
		t.Errorf("the harmless part of a URL is not shown:\n%v", cfg)
	}
}

// TestG12_DamagedFilesShowNoSecret damages a file that holds secrets in every
// place by one to three edits, and looks for them in the messages.
func TestG12_DamagedFilesShowNoSecret(t *testing.T) {
	t.Parallel()
	src := []rune(secretsEverywhere)
	rng := rand.New(rand.NewPCG(1, 2))
	marks := []rune("{}[]:,\"'#&*-?|> \n\tx$")
	files := 400
	if os.Getenv("OUTRIDER_SOAK") != "" {
		files = 10_000
	}
	for range files {
		text := append([]rune(nil), src...)
		for range 1 + rng.IntN(3) {
			i := rng.IntN(len(text))
			switch rng.IntN(3) {
			case 0:
				text = append(text[:i], text[i+1:]...)
			case 1:
				text[i] = marks[rng.IntN(len(marks))]
			default:
				text = append(text[:i], append([]rune{marks[rng.IntN(len(marks))]}, text[i:]...)...)
			}
		}
		_, err := Parse("x.yaml", []byte(string(text)), testEnv)
		if list, ok := errors.AsType[*Errors](err); ok {
			checkPositions(t, string(text), list)
		}
		if err != nil && strings.Contains(err.Error(), "unter2") {
			t.Fatalf("shows a secret:\n%v\nof\n%s", err, string(text))
		}
	}
}

const secretsEverywhere = `# the password is hunter2
state: {url: "postgres://app:hunter2@db/state"} # hunter2
sources:
  app:
    type: postgres
    url: postgres://app:hunter2@db/app?sslpassword=hunter2
destinations:
  bus:
    type: kafka
    brokers: ["127.0.0.1:9092"]
    topic: orders
    sasl: {mechanism: scram-sha-256, username: app, password: "hunter2"}
  api:
    type: http
    url: https://example.com/x
    token: 'hunter2'
    headers:
      X-Api-Key: hunter2
      X-Other: ${CANARY}
    timeout: ${CANARY}
  more:
    type: http
    url: https://bob:hunter2@example.com/x?key=hunter2
    token: |
      hunter2
routes:
  orders:
    from: app
    to: [bus, api, more]
`
