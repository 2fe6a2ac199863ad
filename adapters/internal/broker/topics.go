package broker

import (
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// TopicsConfig configures [Topics]. Noun, List, Template and Valid are required.
type TopicsConfig struct {
	Noun     string // what the broker calls an address: "topic", "subject"
	List     string // the key of the configuration with the patterns that Allowed has: "topics"
	Template string // see [format.Address]

	// Valid says why a name is not one that the broker allows; nil: it is.
	Valid func(name string) error

	// Reserved says why no template may lead to a valid name; nil: it may.
	Reserved func(name string) error

	// Allowed reports whether a template may lead to a name; nil: to any.
	Allowed func(name string) bool
}

// Topics are the addresses of a destination: one name, or a template that renders one for each message.
type Topics struct {
	cfg     TopicsConfig
	address *format.Address
}

// NewTopics returns the addresses, or an error that says what is wrong with the template.
func NewTopics(cfg TopicsConfig) (*Topics, error) {
	address, err := format.NewAddress(cfg.Template, nil)
	if err != nil {
		return nil, err
	}
	if address.Static() && cfg.Template != "" {
		if err := cfg.Valid(cfg.Template); err != nil {
			return nil, err
		}
	}
	return &Topics{cfg: cfg, address: address}, nil
}

// Static reports whether all messages have the same address.
func (t *Topics) Static() bool { return t.address.Static() }

// Of renders the address of a message. A name that the broker or the list does not allow is a permanent error.
func (t *Topics) Of(msg *message.Message) (string, error) {
	if t.Static() {
		return t.cfg.Template, nil
	}
	name, err := t.address.Render(msg)
	if err != nil {
		return "", err
	}
	if err := t.Check(name); err != nil {
		return "", outbox.Permanent(err)
	}
	return name, nil
}

// Check says why a template must not lead to a name.
func (t *Topics) Check(name string) error {
	if err := t.cfg.Valid(name); err != nil {
		return err
	}
	if t.cfg.Reserved != nil {
		if err := t.cfg.Reserved(name); err != nil {
			return err
		}
	}
	if t.cfg.Allowed != nil && !t.cfg.Allowed(name) {
		return fmt.Errorf("%s %q is none that the destination allows (%s)", t.cfg.Noun, name, t.cfg.List)
	}
	return nil
}

// Produces says why the destination delivers to no such address; nil: it may.
func (t *Topics) Produces(name string) error {
	if t.Static() {
		if name != t.cfg.Template {
			return fmt.Errorf("the destination delivers to %s %q, not to %q", t.cfg.Noun, t.cfg.Template, name)
		}
		return nil
	}
	begin, _, _ := strings.Cut(t.cfg.Template, "{{")
	end := t.cfg.Template[strings.LastIndex(t.cfg.Template, "}}")+len("}}"):]
	if rest, ok := strings.CutPrefix(name, begin); !ok || !strings.HasSuffix(rest, end) || rest == end {
		return fmt.Errorf("the destination's template %s does not lead to %s %q", t.cfg.Template, t.cfg.Noun, name)
	}
	return t.Check(name)
}
