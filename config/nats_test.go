package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestNATSServers(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]struct {
		servers, login string
		encrypted      bool
		warning, note  string
	}{
		"url: 'nats://127.0.0.1:4222'":                                       {"127.0.0.1:4222", "  ", false, "", ""},
		"url: 'nats://app:" + canary + "@127.0.0.1:4222'":                    {"127.0.0.1:4222", "app " + canary + " ", false, "", ""},
		"url: 'nats://" + canary + "@127.0.0.1:4222'":                        {"127.0.0.1:4222", "  " + canary, false, "", ""},
		"url: 'nats://a:4222,b'":                                             {"a:4222 b", "  ", false, "can be read and changed", ""},
		"url: 'tls://a:4222,b'":                                              {"a:4222 b", "  ", true, "", ""},
		"url: 'nats://app:" + canary + "@a'":                                 {"a", "app " + canary + " ", true, "", "TLS is used"},
		"url: 'nats://a', user: app, password: " + canary:                    {"a", "app " + canary + " ", true, "", "TLS is used"},
		"url: 'nats://a', token: " + canary + ", tls: {enabled: true}":       {"a", "  " + canary, true, "", ""},
		"url: 'nats://a', token: " + canary + ", tls: {enabled: false}":      {"a", "  " + canary, false, "can be read and changed", ""},
		"url: 'nats://127.0.0.1', nkey_file: /x/y, tls: {server_name: a.b}":  {"127.0.0.1", "  ", true, "", ""},
		"url: 'nats://127.0.0.1,[::1]:1', credentials_file: /does/not/exist": {"127.0.0.1 [::1]:1", "  ", false, "", ""},
	} {
		cfg, err := parseSource(t, "type: sqlite, path: a.db", "type: nats, subject: s, "+keys)
		if err != nil {
			t.Errorf("%s: %v", keys, err)
			continue
		}
		n, _ := cfg.Destinations["out"].(*NATS)
		user, password, token := n.Login()
		if got := strings.Join(n.Servers(), " "); got != want.servers || user+" "+password+" "+token != want.login || n.Encrypted() != want.encrypted {
			t.Errorf("%s: servers %s, login %s %s %s, encrypted %v", keys, got, user, password, token, n.Encrypted())
		}
		for what, pair := range map[string]struct {
			list []*Error
			want string
		}{"warnings": {cfg.Warnings, want.warning}, "notes": {cfg.Notes, want.note}} {
			text := fmt.Sprint(pair.list)
			if len(pair.list) == 0 != (pair.want == "") || !strings.Contains(text, pair.want) || strings.Contains(text, canary) {
				t.Errorf("%s: %s %v, want %q", keys, what, text, pair.want)
			}
		}
		if slices.Contains(strings.Fields(cfg.Redacted()), canary) {
			t.Errorf("%s: the secret is printed", keys)
		}
	}
}
