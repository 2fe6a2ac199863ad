package format

import (
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// Address is a template that tells where a message goes: a topic, a subject or
// the path of a URL. It is a text/template over the [Fields] of a message, with
// the functions lower, upper and replace (replace OLD NEW TEXT).
type Address struct {
	text  string
	parts []part             // when the template is text and plain fields only
	tmpl  *template.Template // otherwise
	value func(placeholder, s string) (string, error)
}

// Fields are the placeholders of an [Address]. A field that a message lacks is empty.
type Fields struct {
	ID            string // the event id
	Type          string
	Group         string
	AggregateType string
	AggregateID   string
	Tenant        string
	Route         string            // name of the route that delivers the message
	Tags          map[string]string // {{.Tags.order_id}}
	Headers       map[string]string // all metadata: {{index .Headers "x-region"}}
}

// emptyError is the error of a message that has no value for a placeholder.
type emptyError struct{ placeholder string }

func (e *emptyError) Error() string { return "the message has nothing to put into " + e.placeholder }

// NewAddress parses a template. encode is applied to every value that a
// message contributes and may refuse it; nil leaves values as they are. The
// error names what the template uses and messages do not have.
func NewAddress(text string, encode func(string) (string, error)) (*Address, error) {
	value := func(placeholder, s string) (string, error) {
		switch {
		case s == "":
			return "", &emptyError{placeholder}
		case encode != nil:
			return encode(s)
		}
		return s, nil
	}
	tmpl, err := template.New("address").Option("missingkey=error").Funcs(template.FuncMap{
		"lower":     strings.ToLower,
		"upper":     strings.ToUpper,
		"replace":   func(from, to, s string) string { return strings.ReplaceAll(s, from, to) },
		valueFilter: value,
	}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template %q: %s", text, plain(err))
	}
	a := &Address{text: text, value: value}
	if a.parts = simpleParts(tmpl.Root); a.parts != nil {
		return a, nil
	}
	filterValues(tmpl.Tree, tmpl.Root)
	a.tmpl = tmpl
	return a, a.try()
}

// Static reports whether the address is the same for all messages.
func (a *Address) Static() bool {
	return a.tmpl == nil && (len(a.parts) == 0 || len(a.parts) == 1 && a.parts[0].field == nil)
}

// Render returns the address of a message. A placeholder for which the message
// has no value is a permanent error: with a part left empty the message would
// go somewhere else.
func (a *Address) Render(msg *message.Message) (string, error) {
	if a.Static() {
		return a.text, nil
	}
	var s string
	var err error
	if a.tmpl != nil {
		s, err = a.execute(msg)
	} else {
		s, err = a.join(msg)
	}
	if err != nil {
		return "", outbox.Permanent(fmt.Errorf("address %q of message %s: %w", a.text, msg.UUID, err))
	}
	return s, nil
}

// try renders a message that has every field, so that a misspelt one is found
// when the template is written and not with the first message.
func (a *Address) try() error {
	msg := message.NewMessage("id", nil)
	for _, key := range []string{
		outbox.MetaType, outbox.MetaGroup, outbox.MetaAggregateType,
		outbox.MetaAggregateID, outbox.MetaTenant, outbox.MetaLane,
	} {
		msg.Metadata[key] = "x"
	}
	_, err := a.execute(msg)
	// Tags and headers differ from message to message.
	if _, empty := errors.AsType[*emptyError](err); err == nil || empty || strings.Contains(err.Error(), "map has no entry") {
		return nil
	}
	return fmt.Errorf("template %q: %w", a.text, err)
}

func (a *Address) join(msg *message.Message) (string, error) {
	var out string
	for _, p := range a.parts {
		s := p.literal
		if p.field != nil {
			var err error
			if s, err = a.value(p.literal, p.field(msg)); err != nil {
				return "", err
			}
		}
		if out == "" {
			out = s // {{.Type}} alone allocates nothing
		} else {
			out += s
		}
	}
	return out, nil
}

func (a *Address) execute(msg *message.Message) (string, error) {
	data, err := fieldsOf(msg)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := a.tmpl.Execute(&b, data); err != nil {
		if empty, ok := errors.AsType[*emptyError](err); ok {
			return "", empty
		}
		return "", plainError{err}
	}
	return b.String(), nil
}

// plainError is a template error without the engine's prefix.
type plainError struct{ error }

func (e plainError) Error() string { return plain(e.error) }
func (e plainError) Unwrap() error { return e.error }

func plain(err error) string {
	return strings.TrimPrefix(err.Error(), "template: address:")
}
