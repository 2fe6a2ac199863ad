package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// checker carries one parse: the source, and what was found in it.
type checker struct {
	file   string
	lines  []string // of the source, without line ends
	env    func(string) (string, bool)
	tokens map[int][]*token.Token  // by line, in order; nil when there is no syntax tree
	shown  map[*token.Token]bool   // what excerpts may show
	masks  map[*token.Token]string // what excerpts show in place of the rest; without an entry ***

	exposed bool   // every user of the machine can read the file
	literal *place // the first secret that the file itself holds

	errors []*Error
	warned []*Error
	noted  []*Error
}

func newChecker(file, src string, env func(string) (string, bool)) *checker {
	src = strings.TrimPrefix(src, "\ufeff")
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	return &checker{
		file: file, lines: strings.Split(src, "\n"), env: env, shown: map[*token.Token]bool{}, masks: map[*token.Token]string{},
	}
}

// add reports an error at a place.
func (c *checker) add(at place, format string, args ...any) *Error {
	e := c.finding(at, format, args...)
	c.errors = append(c.errors, e)
	if at.found {
		at.node.bad = true
	}
	return e
}

// retract takes errors of a place and of what is inside of it back.
func (c *checker) retract(path string) {
	c.errors = slices.DeleteFunc(c.errors, func(e *Error) bool {
		inside, ok := strings.CutPrefix(e.Path, path)
		return ok && (inside == "" || inside[0] == '.' || inside[0] == '[')
	})
}

// warn reports what need not prevent a start.
func (c *checker) warn(at place, format string, args ...any) *Error {
	e := c.finding(at, format, args...)
	c.warned = append(c.warned, e)
	return e
}

// note reports what a default makes of the file, where that may surprise.
func (c *checker) note(at place, format string, args ...any) *Error {
	e := c.finding(at, format, args...)
	c.noted = append(c.noted, e)
	return e
}

func (c *checker) finding(at place, format string, args ...any) *Error {
	n := at.node
	if !at.found && at.name != nil {
		n = at.name // a missing key: its mapping's own name says more than a brace
	}
	e := c.at(n.line, n.col, fmt.Sprintf(format, args...))
	e.Path = at.path
	return e
}

// at makes an error whose position is inside the file, whatever the YAML
// library says.
func (c *checker) at(line, col int, message string) *Error {
	line = min(max(line, 1), len(c.lines))
	col = min(max(col, 1), len([]rune(c.lines[line-1]))+1)
	return &Error{File: c.file, Line: line, Column: col, Message: message}
}

// show lets excerpts and messages show a key or value, unless something about
// it suggests a secret inside.
func (c *checker) show(n *node) {
	if suspicious(n) {
		return
	}
	n.shown = true
	if n.tok != nil {
		c.shown[n.tok] = true
	}
}

// onlyVariable is a value that is a variable and nothing else.
var onlyVariable = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)

// mask gives excerpts what they may show of a secret: the variable that it comes
// from, or a URL without its password. All else is ***.
func (c *checker) mask(n *node, s scalar) {
	u, isURL := s.(*SecretURL)
	switch {
	case n.tok == nil || n.tok.Origin != "" && strings.Contains(strings.TrimSpace(n.tok.Origin), "\n"):
	case onlyVariable.MatchString(n.raw):
		c.masks[n.tok] = n.raw
	case isURL && !n.fromEnv && n.text == n.raw && u.Scheme() != "":
		c.masks[n.tok] = u.String()
	}
}

// result is nil or an *Errors. Excerpts are made last: only then is it known
// what may be shown.
func (c *checker) result() error {
	if len(c.errors) == 0 {
		return nil
	}
	for _, e := range c.errors {
		e.excerpt = c.excerpt(e.Line, e.Column)
	}
	return &Errors{arrange(c.errors)}
}

// finish orders what need not prevent a start, with excerpts.
func (c *checker) finish(list []*Error) []*Error {
	for _, e := range list {
		e.excerpt = c.excerpt(e.Line, e.Column)
	}
	return arrange(list)
}

// suspicious reports whether a text has what separates a login or parameters in a
// URL, even a misspelt one, or has swallowed the key after it, as values do
// when a comma or a colon is missing.
func suspicious(n *node) bool {
	login := strings.Contains(n.raw, "@") || strings.Contains(n.raw, "?") && strings.ContainsAny(n.raw, ":/")
	lines := n.tok != nil && strings.Contains(strings.TrimSpace(n.tok.Origin), "\n")
	return login || lines || strings.Contains(n.raw, ": ")
}
