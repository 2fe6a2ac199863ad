package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parseSource parses a configuration with one source and one destination.
func parseSource(t *testing.T, source, destination string) (*Config, error) {
	t.Helper()
	return Parse("t.yaml", fmt.Appendf(nil, "sources:\n  app: {%s}\ndestinations:\n  out: {%s}\nroutes:\n  all: {from: app, to: out}\n",
		source, destination), testEnv)
}

// Without a word in the file a connection to another machine is encrypted and its
// server checked; anything less is said.
func TestG12_WhatIsNotEncryptedIsSaid(t *testing.T) {
	t.Parallel()
	const sqlite, discard = "type: sqlite, path: a.db", "type: discard"
	postgres := func(url, more string) string { return fmt.Sprintf("type: postgres, url: %q%s", url, more) }
	kafka := func(brokers, more string) string {
		return fmt.Sprintf("type: kafka, brokers: [%q], topic: x, sasl: {mechanism: scram-sha-256, username: u, password: %s}%s", brokers, canary, more)
	}
	for name, test := range map[string]struct {
		source, destination string
		warning, note       string // a part of the only one, or nothing where there is to be none
	}{
		"this machine":              {postgres("postgres://u:hunter2@localhost/x", ""), discard, "", ""},
		"this machine by address":   {postgres("postgres://u:hunter2@[::1]:5432/x", ""), discard, "", ""},
		"a socket":                  {postgres("postgres:///x?host=/var/run/postgresql", ""), discard, "", ""},
		"another one":               {postgres("postgres://u:hunter2@db/x", ""), discard, "", "sources.app.url: has no sslmode"},
		"a socket's host parameter": {postgres("postgres://localhost/x?host=db", ""), discard, "", "sources.app.url: has no sslmode"},
		"verified":                  {postgres("postgres://u:hunter2@db/x?sslmode=verify-full", ""), discard, "", ""},
		"an authority":              {postgres("postgres://u:hunter2@db/x", ", tls: {ca_file: ca.pem}"), discard, "", ""},
		"disable":                   {postgres("postgres://u:hunter2@db/x?sslmode=disable", ""), discard, "sslmode=disable leaves the connection unencrypted", ""},
		"prefer":                    {postgres("postgres://u:hunter2@db/x?sslmode=prefer", ""), discard, "sslmode=prefer encrypts only if", ""},
		"require":                   {postgres("postgres://u:hunter2@db/x?sslmode=require", ""), discard, "sslmode=require encrypts, but", ""},
		"off":                       {postgres("postgres://u:hunter2@db/x", ", tls: {enabled: false}"), discard, "sources.app.tls.enabled: leaves the connection", ""},
		"unverified":                {postgres("postgres://u:hunter2@db/x", ", tls: {insecure_skip_verify: true}"), discard, "anyone between here", ""},
		"kafka here":                {sqlite, kafka("127.0.0.1:9092", ""), "", ""},
		"kafka there":               {sqlite, kafka("k:9092", ""), "", "destinations.out.sasl: the brokers are not all on this machine"},
		"kafka there, said":         {sqlite, kafka("k:9092", ", tls: {enabled: true}"), "", ""},
		"kafka there, off":          {sqlite, kafka("k:9092", ", tls: {enabled: false}"), "destinations.out.tls.enabled: messages can be read", ""},
	} {
		cfg, err := parseSource(t, test.source, test.destination)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for what, pair := range map[string]struct {
			list []*Error
			want string
		}{"warnings": {cfg.Warnings, test.warning}, "notes": {cfg.Notes, test.note}} {
			if (len(pair.list) == 0) != (pair.want == "") || len(pair.list) > 0 && !strings.Contains(pair.list[0].Error(), pair.want) {
				t.Errorf("%s: %s %v, want %q", name, what, pair.list, pair.want)
			}
			if text := fmt.Sprint(pair.list); strings.Contains(text, canary) {
				t.Errorf("%s: shows a secret: %s", name, text)
			}
		}
		if k, ok := cfg.Destinations["out"].(*Kafka); ok && k.Encrypted() != (name == "kafka there" || name == "kafka there, said") {
			t.Errorf("%s: encrypted is %v", name, k.Encrypted())
		}
	}
}

// $NAME is not replaced, and who writes it means ${NAME}.
func TestVariablesWithoutBracesAreWarnedAbout(t *testing.T) {
	t.Parallel()
	for source, destination := range map[string]string{
		"type: postgres, url: 'postgres://u:$DB_PASSWORD@localhost/x'": "type: discard",
		"type: sqlite, path: a.db":                                     "type: http, url: 'https://a.example/$TENANT'",
		"type: sqlite, path: b.db":                                     "type: http, url: 'https://a.example/', token: $API_TOKEN",
	} {
		cfg, err := parseSource(t, source, destination)
		if err != nil || len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0].Error(), "without braces") {
			t.Errorf("%s, %s: %v, %v", source, destination, cfg, err)
		}
	}
	cfg, err := parseSource(t, "type: postgres, url: 'postgres://u:a$$b$9@localhost/x'", "type: http, url: 'https://a.example/', token: a$b")
	if err != nil || len(cfg.Warnings) != 0 {
		t.Errorf("%v, %v", cfg.Warnings, err)
	}
}

// A secret that was pasted into a key for a path is in no error, no excerpt and
// no printed configuration.
func TestG12_PastedSecretsAreNotEchoed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		destination string
		shown       string // what is of use to the reader; empty: the mask
	}{
		{"type: http, url: 'https://a.example', token_file: hunter2", ""},
		{"type: http, url: 'https://a.example', token_file: /hunter2+Zm9vYmFy/a==", ""},
		{"type: http, url: 'https://a.example', token_file: sk.hunter2.live", ""},
		{"type: http, url: 'https://a.example', token_file: " + os.TempDir() + "/hunter3", os.TempDir() + "/hunter3"},
		{"type: http, url: 'https://a.example', token_file: secrets/token.txt", "secrets/token.txt"},
		{"type: webhook, url: 'https://a.example', secrets_file: whsec_hunter2", ""},
	} {
		_, err := parseSource(t, "type: sqlite, path: a.db", test.destination)
		if err == nil || !strings.Contains(err.Error(), "cannot be read") || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", test.destination, err)
		} else if test.shown != "" && !strings.Contains(err.Error(), test.shown) || test.shown == "" && !strings.Contains(err.Error(), "not shown") {
			t.Errorf("%s: not what helps: %v", test.destination, err)
		}
	}
	cfg, err := parseSource(t, "type: sqlite, path: a.db", "type: http, url: 'https://a.example', tls: {ca_file: hunter2}")
	if err != nil || strings.Contains(cfg.Redacted(), canary) {
		t.Errorf("%v\n%v", cfg, err)
	}
}

// Files with secrets that every user of the machine can read are warned about; a
// configuration file without a secret of its own may be open.
func TestOpenFilesAreWarnedAbout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := func(more string) string {
		return "sources:\n  app: {type: sqlite, path: a.db}\ndestinations:\n  out: {type: http, url: https://a.example, " + more + "}\nroutes:\n  all: {from: app, to: out}\n"
	}
	for name, test := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"a secret, closed":        {config("token: hunter2"), 0o640, ""},
		"a secret, open":          {config("token: hunter2"), 0o644, "destinations.out.token: is a secret, and every user"},
		"a variable, open":        {config("token: ${CANARY}"), 0o644, ""},
		"another file, closed":    {config("token_file: " + write("closed", "x", 0o600)), 0o644, ""},
		"another file, open":      {config("token_file: " + write("open", "x", 0o604)), 0o600, "destinations.out.token_file: every user of this machine can read the file"},
		"a private key, open":     {config("tls: {cert_file: c.pem, key_file: " + write("key", "x", 0o604) + "}"), 0o600, "tls.key_file: every user"},
		"no secret at all, open ": {config("timeout: 5s"), 0o644, ""},
	} {
		cfg, err := Load(write("c.yaml", test.text, test.mode), testEnv)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (len(cfg.Warnings) == 0) != (test.want == "") || test.want != "" && !strings.Contains(cfg.Warnings[0].Error(), test.want) {
			t.Errorf("%s: warnings %v, want %q", name, cfg.Warnings, test.want)
		}
	}
}
