package config

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
)

// Glob is a pattern for a whole text: * stands for any run of characters, also
// an empty one and one with dots in it; all other characters match themselves.
// order.* matches order.created and order.line.added, not order.
type Glob string

// globText leaves out what other pattern languages use: such a pattern would
// silently match nothing here.
var globText = regexp.MustCompile(`^[^?\[\]{}\\\s]+$`)

// ParseGlob reads a pattern as the file writes it.
func ParseGlob(text string) (g Glob, err error) {
	err = g.Parse(text)
	return g, err
}

// Parse implements form.Scalar.
func (g *Glob) Parse(text string) error {
	if !globText.MatchString(text) {
		return form.Expected("a pattern such as order.* in which only * is special (no spaces, ? [ ] { } or \\)")
	}
	*g = Glob(text)
	return nil
}

// Spelling implements form.Scalar.
func (*Glob) Spelling() form.Spelling {
	return form.Spelling{Name: "pattern", Pattern: globText.String(), Example: "order.*"}
}

// Match reports whether the pattern covers the whole text.
func (g Glob) Match(text string) bool {
	parts := strings.Split(string(g), "*")
	if len(parts) == 1 {
		return text == string(g)
	}
	last := len(parts) - 1
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1:last] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return strings.HasSuffix(text, parts[last])
}

// String returns the pattern.
func (g Glob) String() string { return string(g) }

// Tag is a condition on a message's tags: a key, or a key and its value.
type Tag struct {
	Key      string
	Value    string
	HasValue bool // false: any value will do
}

var tagText = regexp.MustCompile(`^[^=\s]+(=.*)?$`)

// Parse implements form.Scalar.
func (t *Tag) Parse(text string) error {
	if !tagText.MatchString(text) {
		return form.Expected("a tag as KEY or KEY=VALUE")
	}
	t.Key, t.Value, t.HasValue = strings.Cut(text, "=")
	return nil
}

// Spelling implements form.Scalar.
func (*Tag) Spelling() form.Spelling {
	return form.Spelling{Name: "tag", Pattern: tagText.String(), Example: "region=eu"}
}

// Match reports whether the tags meet the condition.
func (t Tag) Match(tags map[string]string) bool {
	v, ok := tags[t.Key]
	if !ok || !t.HasValue || v == t.Value {
		return ok
	}
	_, again := tags[t.Key+"="+t.Value] // of a source whose keys come more than once
	return again
}

// String writes the condition as it is read.
func (t Tag) String() string {
	if t.HasValue {
		return t.Key + "=" + t.Value
	}
	return t.Key
}

// Table is the name of a table, with or without its schema, as in SQL: a part
// in double quotes is taken as it is.
type Table string

var tableText = regexp.MustCompile(`^(([A-Za-z_][A-Za-z0-9_]{0,62}|"[^"\x00-\x1f\x7f]{1,63}")\.)?([A-Za-z_][A-Za-z0-9_]{0,62}|"[^"\x00-\x1f\x7f]{1,63}")$`)

// Parse implements form.Scalar.
func (t *Table) Parse(text string) error {
	if !tableText.MatchString(text) {
		return form.Expected("a table name such as outrider_outbox or shop.outrider_outbox (letters, digits and _; others in double quotes)")
	}
	*t = Table(text)
	return nil
}

// Spelling implements form.Scalar.
func (*Table) Spelling() form.Spelling {
	return form.Spelling{Name: "table", Pattern: tableText.String(), Example: "shop.outrider_outbox"}
}

// Schema is the part before the dot, empty without one.
func (t Table) Schema() string {
	parts := tableText.FindStringSubmatch(string(t))
	if parts == nil {
		return ""
	}
	return parts[2]
}

// Name is the part after the dot, or all of it.
func (t Table) Name() string {
	if parts := tableText.FindStringSubmatch(string(t)); parts != nil {
		return parts[3]
	}
	return string(t)
}

// String returns the name as it is written.
func (t Table) String() string { return string(t) }

// SchemaName is the name of a schema, as in SQL: in double quotes it is taken as it is.
type SchemaName string

var schemaText = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}|"[^"\x00-\x1f\x7f]{1,63}")$`)

// Parse implements form.Scalar.
func (s *SchemaName) Parse(text string) error {
	if !schemaText.MatchString(text) {
		return form.Expected("the name of a schema such as outrider (letters, digits and _; others in double quotes)")
	}
	*s = SchemaName(text)
	return nil
}

// Spelling implements form.Scalar.
func (*SchemaName) Spelling() form.Spelling {
	return form.Spelling{Name: "schema", Pattern: schemaText.String(), Example: "outrider"}
}

// Exact is the name as the database has it: folded to lower case unless it is in
// double quotes.
func (s SchemaName) Exact() string {
	if name, quoted := strings.CutPrefix(string(s), `"`); quoted {
		return strings.TrimSuffix(name, `"`)
	}
	return strings.ToLower(string(s))
}

// hostPort checks an address. Listening needs no host and may take any port.
func hostPort(text string, listen bool) error {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" && !listen || strings.ContainsAny(host, "/@ ") {
		return form.Expected("an address as host:port")
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 || n == 0 && !listen {
		return errors.New("the port must be a number from 1 to 65535")
	}
	return nil
}

// uri checks a CloudEvents source.
func uri(c *form.Checker, at form.Location, text string) {
	if _, err := url.Parse(text); err != nil || text == "" {
		c.Add(at, "is not a URI reference").Fix("for example /shop/outbox or https://example.com/shop")
	}
}

// postgresURL checks what can be known of a postgres:// URL without dialling.
func postgresURL(c *form.Checker, at form.Location, u SecretURL, otherwise string) {
	databaseURL(c, at, u, "5432", otherwise, "postgres", "postgresql")
}

// databaseURL parses the URL of a database, which has one of the schemes; nil: it is not set, or an error has been reported.
// otherwise is added to the error of a URL with another scheme.
func databaseURL(c *form.Checker, at form.Location, u SecretURL, port, otherwise string, schemes ...string) *url.URL {
	parsed, err := url.Parse(u.Reveal())
	switch {
	case u.IsZero(): // reported as missing
	case form.Unexpanded(u.Reveal()):
		c.Add(at, "is a variable without braces, which is not replaced").Fix("write ${NAME}")
	case strings.Contains(u.Reveal(), "#"):
		c.Add(at, "has a #, which ends a URL").Fix("write %%23 instead of # in a password")
	case err != nil || !slices.Contains(schemes, parsed.Scheme) || schemes[0] == "mysql" && strings.Contains(parsed.Path, "@"):
		c.Add(at, "is not a %s:// URL%s", schemes[0], otherwise).
			Fix("for example %s://user@host:%s/database; special characters of a password are %%-encoded", schemes[0], port)
	case slices.ContainsFunc(strings.Split(parsed.Host, ","), func(host string) bool { // of several hosts each has a port
		n, err := strconv.Atoi(cmp.Or((&url.URL{Host: host}).Port(), port))
		return err != nil || n < 1 || n > 65535
	}):
		c.Add(at, "has an invalid port"). // which is not shown: it may be a part of a password
							Fix("ports are numbers from 1 to 65535, and special characters of a password are %%-encoded")
	default:
		return parsed
	}
	return nil
}

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }
