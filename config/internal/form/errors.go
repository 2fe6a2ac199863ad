package form

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing that is wrong with a configuration, or worth a warning.
// None of its fields holds a secret.
type Error struct {
	File    string
	Line    int    // from 1
	Column  int    // from 1, in characters
	Path    string // for example routes.orders.middleware[1].retry.attempts; may be empty
	Message string
	Hint    string // what to do about it; may be empty

	excerpt string // the line, masked, and a caret below it
}

// Error is the location and the message, on one line.
func (e *Error) Error() string {
	where := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Path != "" {
		where += e.Path + ": "
	}
	return where + e.Message
}

// Text is the error for people: with the line, a caret and the hint.
func (e *Error) Text() string {
	text := e.Error() + "\n" + e.excerpt
	if e.Hint != "" {
		text += "hint: " + e.Hint + "\n"
	}
	return text
}

// Fix sets the hint: what to do about the error.
func (e *Error) Fix(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Errors lists all mistakes of a configuration, in order of line.
type Errors struct{ List []*Error }

// Error is the text of all errors, with excerpts and hints.
func (e *Errors) Error() string {
	texts := make([]string, len(e.List))
	for i, one := range e.List {
		texts[i] = one.Text()
	}
	return strings.TrimRight(strings.Join(texts, "\n"), "\n")
}

// Unwrap gives the errors one by one to errors.As.
func (e *Errors) Unwrap() []error {
	out := make([]error, len(e.List))
	for i, one := range e.List {
		out[i] = one
	}
	return out
}

// arrange sorts by location and drops the duplicates of aliases.
func arrange(list []*Error) []*Error {
	slices.SortStableFunc(list, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	return slices.CompactFunc(list, func(a, b *Error) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Message == b.Message
	})
}
