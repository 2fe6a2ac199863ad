package form

import (
	"regexp"
	"strings"
)

// variableName matches the names in ${...}.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// shield is where characters inside of ${...} are moved while YAML is parsed:
// in [a, ${B}] the braces, commas and colons of a variable would end the value.
// One character stays one character, so columns stay right.
const (
	shield     = 0xF0000 // a private-use plane, which no text uses
	shieldLast = shield + 0x7F
)

// shielded are the characters that mean something to YAML. Quotes and
// backslashes stay: inside of a quoted string they must do their work.
const shielded = "{}[],:#&*!|>%@`?- "

// ShieldVariables hides the insides of all ${...} of a line from YAML.
func ShieldVariables(line string) string {
	var b strings.Builder
	for {
		i := strings.Index(line, "${")
		end := -1
		if i >= 0 {
			end = strings.IndexByte(line[i:], '}')
		}
		if end < 0 {
			b.WriteString(line)
			return b.String()
		}
		b.WriteString(line[:i])
		for _, r := range line[i : i+end+1] {
			if strings.ContainsRune(shielded, r) {
				r += shield
			}
			b.WriteRune(r)
		}
		line = line[i+end+1:]
	}
}

// Unshield brings hidden characters back.
func Unshield(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= shield && r <= shieldLast {
			return r - shield
		}
		return r
	}, text)
}

// expand puts variables into a scalar; path is for messages. Without ${ and $$
// the text stays as it is.
func (c *Checker) expand(n *node, path string) {
	if !strings.Contains(n.raw, "${") && !strings.Contains(n.raw, "$$") {
		return
	}
	var b strings.Builder
	rest := n.raw
	for {
		i := strings.IndexByte(rest, '$')
		if i < 0 || i == len(rest)-1 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		switch rest[i+1] {
		case '$':
			b.WriteByte('$')
			rest = rest[i+2:]
		case '{':
			end := strings.IndexByte(rest[i:], '}')
			if end < 0 {
				c.badVariable(n, path, "the variable that begins with ${ has no closing brace")
				return
			}
			b.WriteString(c.variable(n, path, rest[i+2:i+end]))
			rest = rest[i+end+1:]
		default:
			b.WriteByte('$')
			rest = rest[i+1:]
		}
	}
	n.text = b.String()
}

// variable looks up NAME or NAME:-DEFAULT; the default also replaces an
// empty variable.
func (c *Checker) variable(n *node, path, text string) string {
	n.fromEnv = true
	name, fallback, hasFallback := strings.Cut(text, ":-")
	if !variableName.MatchString(name) {
		c.badVariable(n, path, "${...} does not hold the name of a variable")
		return ""
	}
	value, ok := c.env(name)
	switch {
	case hasFallback && value == "":
		return fallback
	case !ok:
		c.Add(Location{n, nil, path, true}, "the environment variable %s is not set", name).
			Fix("set it, or write ${%s:-default}", name)
		n.bad = true
	}
	return value
}

func (c *Checker) badVariable(n *node, path, message string) {
	c.Add(Location{n, nil, path, true}, "%s", message).
		Fix("write ${NAME} or ${NAME:-default}; $$ stands for a dollar sign")
	n.bad = true
}
