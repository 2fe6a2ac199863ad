package operate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// CreateTopic creates a topic that a destination may deliver to, and returns false if it exists.
func (op *Operator) CreateTopic(ctx context.Context, destination string, topic adapters.NewTopic, by string) (created bool, err error) {
	section, ok := op.build.Config.Destinations[destination]
	if !ok {
		return false, &UnknownDestination{destination, op.build.Config.Partial, assembly.SortedNames(op.build.Config.Destinations)}
	}
	if err := op.produced(destination, section, topic.Name); err != nil {
		return false, err
	}
	k := op.build.Destination(destination)
	if k.Examine == nil {
		k.Examine = k.Open
	}
	if k.Examine == nil {
		return false, assembly.NotBuiltIn(section)
	}
	d, err := k.Examine()
	if err != nil {
		return false, fmt.Errorf("destination %q: %w", destination, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	creator, ok := d.(adapters.TopicCreator)
	if !ok {
		return false, refused("destination %q: a destination of the type %s has no topics to create", destination, section.Kind())
	}
	if created, err = creator.CreateTopic(ctx, topic); err != nil {
		return false, refused("destination %q: %w", destination, err)
	}
	if !created || topic.DryRun {
		return created, nil
	}
	number := func(n int) string {
		if n == 0 {
			return "default"
		}
		return strconv.Itoa(n)
	}
	return true, recordIn(ctx, op.storeOf(destination), by, "create topic", 1, "destination", destination, "topic", topic.Name,
		"partitions", number(topic.Partitions), "replicas", number(topic.Replicas))
}

// ofOneField is a template of a topic that has one field of the message in it, which a route can match.
var ofOneField = regexp.MustCompile(`^([^{]*)\{\{-?\s*\.(Type|AggregateType|Tenant)\s*-?\}\}([^{]*)$`)

// produced refuses a topic to which no route that uses the destination can lead a message. Whether the template as such leads to
// the topic the destination says; where a topic has several fields, or functions, that is all that is checked.
func (op *Operator) produced(destination string, section config.Destination, topic string) error {
	topics, ok := config.TopicsOf(section)
	if !ok {
		return nil
	}
	field := ofOneField.FindStringSubmatch(string(topics.Template))
	if field == nil {
		return nil
	}
	value, begins := strings.CutPrefix(topic, field[1])
	value, ends := strings.CutSuffix(value, field[3])
	if !begins || !ends {
		return nil // the destination says so
	}
	var m config.Match
	for _, r := range op.build.Config.Routes {
		if r.To != destination && !poisons(&r, destination) {
			continue
		}
		switch field[2] {
		case "Type":
			m = config.Match{Types: r.Match.Types}
		case "AggregateType":
			m = config.Match{AggregateTypes: r.Match.AggregateTypes}
		default:
			m = config.Match{Tenants: r.Match.Tenants}
		}
		if m.Matches(config.Event{Type: value, AggregateType: value, Tenant: value}) {
			return nil
		}
	}
	return refused("no route leads to %s %q of destination %q: none of those that use it matches a message whose %s is %q", topics.Noun(), topic, destination, field[2], value)
}

// poisons reports whether a route sends its dead messages to a destination.
func poisons(r *config.Route, destination string) bool {
	return slices.ContainsFunc(r.Middleware, func(m config.Middleware) bool {
		p, ok := m.(*config.Poison)
		return ok && p.To == destination
	})
}

// storeOf is the state store of a route that leads to a destination; of none: any.
func (op *Operator) storeOf(destination string) adapters.OperatorStore {
	for _, r := range op.build.Config.Routes {
		if k, err := op.build.StateOf(r.From); r.To == destination && err == nil {
			return op.parts.States[k.Key]
		}
	}
	return op.stores[0]
}
