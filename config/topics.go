package config

import (
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
)

// Topics are the addresses of a destination at a message broker, as its section gives them.
type Topics struct {
	Key      string // the key of the template: "topic", "routing_key"
	List     string // the key of the patterns: "topics"
	Template Template
	Patterns []Glob // that a template may render; none: they are not limited
}

// Noun is what the broker calls one: "topic", "routing key".
func (t Topics) Noun() string { return strings.ReplaceAll(t.Key, "_", " ") }

// broker is a destination at a message broker, whose rows may choose the address.
type broker interface{ topics() Topics }

// TopicsOf returns the addresses of a destination; ok is false if it is not at a message broker.
func TopicsOf(d Destination) (t Topics, ok bool) {
	b, ok := d.(broker)
	if ok {
		t = b.topics()
	}
	return t, ok
}

// Allowed returns which addresses a template may render; nil: they are not limited.
func (t Topics) Allowed() func(name string) bool {
	if len(t.Patterns) == 0 {
		return nil
	}
	return func(name string) bool { return anyGlob(t.Patterns, name) }
}

// check reports a name that the broker does not allow, and patterns that no template needs. rule says which names are allowed.
func (t Topics) check(c *form.Checker, at form.Location, valid func(name string) bool, broker, rule string) {
	if s := t.Template.sample(); s != "" && !valid(s) {
		c.Add(at.Child(t.Key), "is not a %s name that %s allows", t.Noun(), broker).Fix("%s", rule)
	}
	if at.Has(t.List) && at.Has(t.Key) && t.Template.Static() && at.Sound(t.Key) {
		c.Add(at.Child(t.List).Key(), "has no effect, because %s is the same for all messages", t.Key).Fix("remove it")
	}
}

// checkChoice refuses a route whose rows would choose among all addresses of a broker.
func (cfg *Config) checkChoice(c *form.Checker, at form.Location, r *Route, to string) {
	t, ok := TopicsOf(cfg.Destinations[to])
	if !ok || !t.Template.chosenByRows() || len(t.Patterns) > 0 || len(r.Match.Types) > 0 {
		return
	}
	c.Add(at, "the %s of %s is a template, so the writer of a row can choose any %s of the cluster", t.Noun(), at.Quote(), t.Noun()).
		Fix("give the route match: {types: [...]}, or the destination %s: [...]", t.List)
}
