package form

import (
	"errors"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxDepth bounds nesting, so that no input can exhaust the parser's stack.
const maxDepth = 64

// read parses the source into nodes. Nil means that there is no tree to decode.
func (c *Checker) read() *node {
	for i, line := range c.lines {
		for col, r := range []rune(line) {
			if r >= shield && r <= shieldLast || r == 0 || r == '\uFFFD' {
				c.errors = append(c.errors, c.at(i+1, col+1, "the file holds a character that is not text").
					Fix("save the file as UTF-8"))
				return nil
			}
		}
	}
	file, tokens := c.parse()
	if file == nil {
		return nil
	}
	body, ok := c.oneDocument(file)
	if !ok {
		return nil
	}
	c.tokens = map[int][]*token.Token{}
	for _, t := range tokens {
		c.tokens[t.Position.Line] = append(c.tokens[t.Position.Line], t)
	}
	root := (&reader{Checker: c, anchors: map[string]*node{}}).value(body, "")
	if root.kind != mappingNode && !root.bad {
		c.errors = append(c.errors, c.at(root.line, root.col, "expected a mapping, found "+root.kind.String()).
			Fix("begin with sources:, destinations: and routes:"))
		return nil
	}
	return root
}

// parse runs the YAML library, whose panics on strange input become errors.
func (c *Checker) parse() (file *ast.File, tokens token.Tokens) {
	defer func() {
		if recover() != nil {
			c.syntax(1, 1, "is not YAML that can be read")
			file = nil
		}
	}()
	src := make([]string, len(c.lines))
	for i, line := range c.lines {
		src[i] = ShieldVariables(line)
	}
	tokens = lexer.Tokenize(strings.Join(src, "\n"))
	if t := tooDeep(tokens); t != nil {
		c.syntax(t.Position.Line, t.Position.Column, "is nested too deeply")
		return nil, nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file, tokens
	}
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		p := at.GetToken().Position
		c.syntax(p.Line, p.Column, at.GetMessage())
	} else {
		c.syntax(1, 1, "is not YAML that can be read")
	}
	return nil, nil
}

// quotedPart is text of the file that a message of the YAML library quotes.
var quotedPart = regexp.MustCompile(`"(?:[^"\\]|\\.){2,}"`)

func (c *Checker) syntax(line, col int, message string) {
	e := c.at(line, col, "YAML: "+strings.ReplaceAll(quotedPart.ReplaceAllString(message, masked), "\t", `\t`))
	if strings.Contains(message, "tab") || strings.Contains(message, "\t") {
		_ = e.Fix("indent with spaces")
	} else if strings.Contains(c.lines[e.Line-1], "{{") {
		_ = e.Fix("quote values that begin with a brace: \"{{.Type}}\"")
	}
	c.errors = append(c.errors, e)
}

// tooDeep returns the token at which nesting passes the limit: of braces and
// brackets, or of characters that each open a level on one line.
func tooDeep(tokens token.Tokens) *token.Token {
	flow, opened, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, opened = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.CollectEntryType:
			opened = 0
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			opened++
		}
		if flow > maxDepth || opened > maxDepth {
			return t
		}
	}
	return nil
}

// oneDocument returns the body of the only document of the file.
func (c *Checker) oneDocument(file *ast.File) (ast.Node, bool) {
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if _, ok := doc.Body.(*ast.CommentGroupNode); ok {
			continue
		}
		if body != nil {
			p := doc.Body.GetToken().Position
			if doc.Start != nil {
				p = doc.Start.Position
			}
			c.errors = append(c.errors, c.at(p.Line, p.Column, "a second YAML document begins here").
				Fix("remove the line ---, or keep one file for each configuration"))
			return nil, false
		}
		body = doc.Body
	}
	if body == nil {
		c.errors = append(c.errors, c.at(1, 1, "the file is empty").
			Fix("begin with sources:, destinations: and routes:"))
	}
	return body, body != nil
}
