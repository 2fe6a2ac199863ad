package foreign

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// IsEnvironment reports whether a file holds NAME=value lines: .env, .env.production, outbox.env.
func IsEnvironment(name string) bool {
	base := filepath.Base(name)
	return base == ".env" || strings.HasPrefix(base, ".env.") || strings.EqualFold(filepath.Ext(base), ".env")
}

var assignment = regexp.MustCompile(`^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$`)

// readEnvironment reads the lines of a dotenv file, or what env prints. Quotes go, and so does a comment behind a value
// without quotes. The error shows no line, which may hold a secret.
func readEnvironment(name string, text []byte) ([]Setting, error) {
	var out []Setting
	for i, line := range strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		m := assignment.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%s:%d: is not NAME=value", name, i+1)
		}
		out = append(out, Setting{Key: m[1], Value: unquote(m[2]), Line: i + 1})
	}
	return out, nil
}

// unquote returns the value of an assignment.
func unquote(value string) string {
	if value == "" {
		return ""
	}
	if q := value[0]; q == '"' || q == '\'' {
		if end := strings.IndexByte(value[1:], q); end >= 0 {
			return value[1 : 1+end]
		}
		return value[1:]
	}
	for _, comment := range []string{" #", "\t#"} {
		value, _, _ = strings.Cut(value, comment)
	}
	return strings.TrimSpace(value)
}
