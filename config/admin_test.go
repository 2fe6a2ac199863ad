package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tokens that can change something are long, and a role for callers without one has no
// place beside tokens.
func TestG12_TokensOfTheAdminServerAreChecked(t *testing.T) {
	t.Parallel()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	long := file("long", strings.Repeat("x", 32)+"\n")
	short := file("short", strings.Repeat("x", 32)+"\n"+strings.Repeat("y", 31)+"\n")
	for admin, want := range map[string]string{
		fmt.Sprintf("{listen: \"0.0.0.0:1\", operate_tokens_file: %q}", long):                                              "",
		"{listen: \"127.0.0.1:1\", anonymous: operate}":                                                                    "",
		fmt.Sprintf("{listen: \"127.0.0.1:1\", operate_tokens_file: %q}", short):                                           "token 2 of the file has 31 bytes; it needs 32",
		fmt.Sprintf("{listen: \"127.0.0.1:1\", admin_tokens_file: %q}", short):                                             "token 2 of the file has 31 bytes; it needs 32",
		fmt.Sprintf("{listen: \"127.0.0.1:1\", tokens_file: %q, anonymous: operate}", long):                                "has no effect beside tokens",
		"{listen: \"127.0.0.1:1\", anonymous: all}":                                                                        "anonymous",
		"{listen: \"0.0.0.0:1\", identity_header: X-User, identity_proxies: [10.1.2.3/32], identity_roles: {\"*\": read}}": "",
		"{listen: \"127.0.0.1:1\", identity_header: X-User, identity_proxies: [10.1.2.3/32]}":                              "needs identity_roles beside it",
		"{listen: \"127.0.0.1:1\", identity_header: X-User, identity_roles: {a: read}}":                                    "needs identity_proxies beside it",
		"{listen: \"127.0.0.1:1\", identity_header: X-User, identity_proxies: [all], identity_roles: {a: read}}":           "is not a network",
		"{listen: \"127.0.0.1:1\", identity_header: X-User, identity_proxies: [10.1.2.3/32], identity_roles: {a: root}}":   "is not a role",
		"{listen: \"127.0.0.1:1\", identity_roles: {a: read}}":                                                             "has no effect without identity_header",
		"{listen: \"0.0.0.0:1\"}": "no token is set",
	} {
		text := "admin: " + admin + "\nsources: {app: {type: sqlite, path: app.db}}\ndestinations: {out: {type: log}}\nroutes: {all: {from: app, to: out}}\n"
		_, err := Parse("test", []byte(text), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", admin, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "yyyy") {
			t.Errorf("%s: the error shows a token: %v", admin, err)
		}
	}
}
