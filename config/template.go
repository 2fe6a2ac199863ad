package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/outriderhq/outrider/config/internal/form"
)

// TemplateFields are the fields that a [Template] may use.
const TemplateFields = ".Type .Group .AggregateType .AggregateID .Tenant .ID .Route .Tags .Headers"

// Template is an address as package outbox/format renders it: Go's
// text/template over [TemplateFields], of which .Tags and .Headers are maps of
// strings, with the functions lower, upper and replace. It has been parsed and
// rendered for a sample message, so it holds no unknown field. Text without
// actions is an address for all messages.
type Template string

// templateData has the shape of what templates are rendered from.
type templateData struct {
	Type, Group, AggregateType, AggregateID, Tenant, ID, Route string
	Tags, Headers                                              map[string]string
}

// Parse implements form.Scalar.
func (t *Template) Parse(text string) error {
	tmpl, err := newTemplate(text)
	if err != nil {
		return errors.New("is not a template: " + templateError(err))
	}
	if loops(tmpl) {
		return errors.New("an address can use no range, define or template")
	}
	if err := tmpl.Execute(io.Discard, sampleData()); err != nil {
		return errors.New("cannot be rendered: " + templateError(err))
	}
	// The branches for what a message lacks are tried for unknown fields only:
	// other failures there depend on the message.
	err = tmpl.Execute(io.Discard, templateData{})
	if err != nil && strings.Contains(err.Error(), "can't evaluate field") {
		return errors.New("cannot be rendered: " + templateError(err))
	}
	*t = Template(text)
	return nil
}

// Spelling implements form.Scalar.
func (*Template) Spelling() form.Spelling {
	return form.Spelling{Name: "template", Address: true, Example: "{{.Type}}"}
}

// sampleData is a message with everything. Its values are letters and digits,
// so that a rendered address is as legal as the template lets it be.
func sampleData() templateData {
	m := map[string]string{"sample": "sample"}
	return templateData{"sample", "sample", "sample", "sample", "sample", "sample", "sample", m, m}
}

// sample is the address of a sample message; empty when there is none.
func (t Template) sample() string {
	tmpl, err := newTemplate(string(t))
	if err != nil {
		return ""
	}
	var b strings.Builder
	if err := tmpl.Execute(&b, sampleData()); err != nil {
		return ""
	}
	return b.String()
}

// Static reports whether the address is the same for all messages.
func (t Template) Static() bool { return !strings.Contains(string(t), "{{") }

// chosenByRows reports whether the address depends on more of a message than its
// route.
func (t Template) chosenByRows() bool {
	tmpl, err := newTemplate(string(t))
	if err != nil || t.Static() {
		return false
	}
	var sample, other strings.Builder
	data := templateData{Route: sampleData().Route}
	return tmpl.Execute(&sample, sampleData()) != nil || tmpl.Execute(&other, data) != nil || sample.String() != other.String()
}

// String returns the template's text.
func (t Template) String() string { return string(t) }

// loops finds what could make rendering an address run for long.
func loops(tmpl *template.Template) bool {
	if len(tmpl.Templates()) > 1 {
		return true
	}
	return tmpl.Tree != nil && tmpl.Root != nil && hasLoop(tmpl.Root)
}

func hasLoop(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.ListNode:
		return n != nil && slices.ContainsFunc(n.Nodes, hasLoop)
	case *parse.IfNode:
		return hasLoop(n.List) || hasLoop(n.ElseList)
	case *parse.WithNode:
		return hasLoop(n.List) || hasLoop(n.ElseList)
	case *parse.RangeNode, *parse.TemplateNode:
		return true
	}
	return false
}

// templateError words an error of text/template without the parts that repeat
// the template's text, some of which may have come from a variable.
func templateError(err error) string {
	text := err.Error()
	if _, field, ok := strings.Cut(text, "can't evaluate field "); ok {
		name, _, _ := strings.Cut(field, " ")
		return fmt.Sprintf("there is no field .%s; there are %s", name, TemplateFields)
	}
	if strings.Contains(text, "function") && strings.Contains(text, "not defined") {
		return "there is no such function; there are lower, upper and replace"
	}
	return "see https://pkg.go.dev/text/template for how actions are written"
}

// newTemplate parses an address. The sample message has few tags and headers;
// those that it lacks are empty.
func newTemplate(text string) (*template.Template, error) {
	return template.New("address").Option("missingkey=zero").Funcs(template.FuncMap{
		"lower": strings.ToLower, "upper": strings.ToUpper,
		"replace": func(from, to, s string) string { return strings.ReplaceAll(s, from, to) },
	}).Parse(text)
}
