package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
)

// missingTopic is in the error of an address that is a topic which can be created.
const missingTopic = "does not exist: create it with kafka-topics.sh"

// CreateTopic creates a topic that a destination may deliver to, and returns false if it exists.
func (op *Operator) CreateTopic(ctx context.Context, destination string, topic adapters.NewTopic, by string) (created bool, err error) {
	section, ok := op.build.Config.Destinations[destination]
	if !ok {
		return false, &unknownDestination{destination, op.build.Config.Partial, assembly.SortedNames(op.build.Config.Destinations)}
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

// storeOf is the state store of a route that leads to a destination; of none: any.
func (op *Operator) storeOf(destination string) adapters.StateStore {
	for _, r := range op.build.Config.Routes {
		if k, err := op.build.StateOf(r.From); r.To == destination && err == nil {
			return op.parts.States[k.Key]
		}
	}
	return op.stores[0]
}

// unknownDestination is the error for a name that no destination has.
type unknownDestination struct {
	name    string
	partial bool // some could not be read
	known   []string
}

func (e *unknownDestination) Error() string {
	if e.partial {
		return fmt.Sprintf("there is no destination %q that can be read here: `outrider validate` names what is missing, such as a secret", e.name)
	}
	return fmt.Sprintf("there is no destination %q: the configuration has %s", e.name, strings.Join(e.known, ", "))
}

// Probe tries an address of a route that is down at once. It reports whether this instance does.
func (c *Console) Probe(route, address string) bool {
	return c.relay.Probe != nil && c.relay.Probe(route, address)
}

// CreateTopic is [Operator.CreateTopic]; then the routes that wait for the topic try it at once.
func (c *Console) CreateTopic(ctx context.Context, destination string, topic adapters.NewTopic, by string) (created bool, err error) {
	err = c.Use(ctx, func(op *Operator) (err error) {
		created, err = op.CreateTopic(ctx, destination, topic, by)
		return err
	})
	if topic.DryRun {
		return created, err
	}
	for _, r := range c.Config().Routes {
		if r.To == destination {
			c.Probe(r.Name, topic.Name)
		}
	}
	return created, err
}
