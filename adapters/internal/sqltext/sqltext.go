// Package sqltext writes statements: names are filled into a template, and values become parameters.
package sqltext

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect is how a database and its driver take parameters.
type Dialect struct {
	Param func(n int) string // parameter n, counted from 1
	Value func(any) any      // an argument as a column keeps it; nil: as it is
}

// Question is the Param of a database that writes ? for every parameter.
func Question(int) string { return "?" }

// Dollar is the Param of PostgreSQL: $1, $2.
func Dollar(n int) string { return "$" + strconv.Itoa(n) }

// Names are the texts that stand for {name} in a template: names of tables and columns, quoted already, and expressions. They are
// put in as they are: what stands in them is not replaced again.
type Names map[string]string

// Fill returns the template with its names. A {name} that is unknown is a mistake of the program, which every test of the statement
// sees: it panics.
func Fill(template string, names Names) string {
	var s Statement
	s.names = names
	s.write(template, nil)
	return s.SQL()
}

// Statement is a statement under construction, with its arguments.
type Statement struct {
	Args []any

	dialect Dialect
	names   Names
	text    strings.Builder
}

// New begins a statement. Each ? of the template stands for the next argument; it cannot stand for itself, also not in a constant.
func (d Dialect) New(template string, names Names, args ...any) *Statement {
	s := &Statement{dialect: d, names: names}
	return s.And(template, args...)
}

// Raw is a statement as the database takes it.
func Raw(text string, args ...any) *Statement {
	s := &Statement{Args: args}
	s.text.WriteString(text)
	return s
}

// And appends to a statement, with the names of [Dialect.New].
func (s *Statement) And(template string, args ...any) *Statement {
	next := 0
	s.write(template, func() {
		if next < len(args) {
			arg := args[next]
			if s.dialect.Value != nil {
				arg = s.dialect.Value(arg)
			}
			s.Args = append(s.Args, arg)
			s.text.WriteString(s.dialect.Param(len(s.Args)))
		}
		next++
	})
	if next != len(args) {
		mistake("%d arguments for the %d parameters of %q", len(args), next, template)
	}
	return s
}

// SQL is the text of the statement.
func (s *Statement) SQL() string { return s.text.String() }

// write appends a template. It calls param for each ?; nil: that stands for itself.
func (s *Statement) write(template string, param func()) {
	marks := "{"
	if param != nil {
		marks = "{?"
	}
	for rest := template; ; {
		i := strings.IndexAny(rest, marks)
		if i < 0 {
			s.text.WriteString(rest)
			return
		}
		s.text.WriteString(rest[:i])
		mark, after := rest[i], rest[i+1:]
		name, behind, closed := strings.Cut(after, "}")
		switch {
		case mark == '?':
			param()
		case !closed || !isName(name): // such as the constant '{}'
			s.text.WriteByte('{')
		default:
			text, known := s.names[name]
			if !known {
				mistake("unknown name {%s} in %q", name, template)
			}
			s.text.WriteString(text)
			after = behind
		}
		rest = after
	}
}

// Args are the arguments for the parameters {:name} of a statement whose text is known before they are.
type Args map[string]any

// Bind returns a statement with a ? for each {:name}, and their arguments in that order. For a list, []any, there is a ? for each of its elements.
// [Fill] leaves {:name} as it is, and Bind what is no parameter, such as a brace in the name of a table.
func Bind(text string, args Args) (query string, all []any) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{:")
		b.WriteString(before)
		if !found {
			return b.String(), all
		}
		name, after, _ := strings.Cut(rest, "}")
		arg, known := args[name]
		if !known {
			b.WriteString("{:")
			text = rest
			continue
		}
		list, many := arg.([]any)
		if !many {
			list = []any{arg}
		}
		b.WriteString(strings.TrimSuffix(strings.Repeat("?, ", len(list)), ", "))
		all, text = append(all, list...), after
	}
}

func isName(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// mistake ends the program: no configuration and no data lead here, only a template that no test has run.
func mistake(format string, args ...any) {
	panic("sqltext: " + fmt.Sprintf(format, args...)) //nolint:forbidigo // see above
}
