package form

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// Checker carries one parse: the source, and what was found in it.
type Checker struct {
	*Declaration

	file   string
	lines  []string // of the source, without line ends
	env    func(string) (string, bool)
	tokens map[int][]*token.Token  // by line, in order; nil when there is no syntax tree
	shown  map[*token.Token]bool   // what excerpts may show
	masks  map[*token.Token]string // what excerpts show instead of the rest; otherwise ***

	exposed bool      // every user of the machine can read the file
	literal *Location // the first secret that the file itself holds

	errors []*Error
	warned []*Error
	noted  []*Error
}

// Text begins to read a text; file is its name in messages. env looks variables up, as [os.LookupEnv] does; nil knows none.
func (d *Declaration) Text(file, src string, env func(string) (string, bool)) *Checker {
	src = strings.TrimPrefix(src, "\ufeff")
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	return &Checker{
		Declaration: d, file: file, lines: strings.Split(src, "\n"), env: env, shown: map[*token.Token]bool{}, masks: map[*token.Token]string{},
	}
}

// Add reports an error at a location.
func (c *Checker) Add(at Location, format string, args ...any) *Error {
	e := c.finding(at, format, args...)
	c.errors = append(c.errors, e)
	if at.found {
		at.node.bad = true
	}
	return e
}

// Retract removes the errors at a location and inside of it.
func (c *Checker) Retract(at Location) {
	c.errors = slices.DeleteFunc(c.errors, func(e *Error) bool {
		inside, ok := strings.CutPrefix(e.Path, at.path)
		return ok && (inside == "" || inside[0] == '.' || inside[0] == '[')
	})
}

// Warn reports what need not prevent a start.
func (c *Checker) Warn(at Location, format string, args ...any) *Error {
	e := c.finding(at, format, args...)
	c.warned = append(c.warned, e)
	return e
}

// Note reports the effect of a default that a reader of the file might not expect.
func (c *Checker) Note(at Location, format string, args ...any) *Error {
	e := c.finding(at, format, args...)
	c.noted = append(c.noted, e)
	return e
}

func (c *Checker) finding(at Location, format string, args ...any) *Error {
	n := at.node
	if !at.found && at.name != nil {
		n = at.name // a missing key: the name of its mapping is clearer than a brace
	}
	e := c.at(n.line, n.col, fmt.Sprintf(format, args...))
	e.Path = at.path
	return e
}

// at makes an error whose position is inside the file, which those of the YAML
// library may not be.
func (c *Checker) at(line, col int, message string) *Error {
	line = min(max(line, 1), len(c.lines))
	col = min(max(col, 1), len([]rune(c.lines[line-1]))+1)
	return &Error{File: c.file, Line: line, Column: col, Message: message}
}

// show lets excerpts and messages show a key or value, unless something about
// it suggests a secret inside.
func (c *Checker) show(n *node) {
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
func (c *Checker) mask(n *node, s Scalar) {
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
func (c *Checker) result() error {
	if len(c.errors) == 0 {
		return nil
	}
	for _, e := range c.errors {
		e.excerpt = c.excerpt(e.Line, e.Column)
	}
	return &Errors{arrange(c.errors)}
}

// Findings returns the warnings and the notes, in order of line.
func (c *Checker) Findings() (warnings, notes []*Error) {
	return c.finish(c.warned), c.finish(c.noted)
}

// finish orders findings and adds their excerpts.
func (c *Checker) finish(list []*Error) []*Error {
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
