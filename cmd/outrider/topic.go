package main

import (
	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
)

func (a *app) topicCommand() *cobra.Command {
	return group(&cobra.Command{Use: "topic", Short: "Create topics that destinations deliver to"}, a.topicCreateCommand())
}

func (a *app) topicCreateCommand() *cobra.Command {
	var topic adapters.NewTopic
	c := &cobra.Command{
		Use:   "create DESTINATION TOPIC",
		Short: "Create a topic, queue or stream that a destination may deliver to",
		Long: `Creates, with the connection and the user of a destination, what it delivers to: a topic of
Kafka; a quorum queue of RabbitMQ with the name of the routing key, and its exchange and
binding if the destination names an exchange; a stream of NATS that covers the subject, or
the subject in the stream that the destination names. It is the destination's own, or one
that its template leads to and its list allows, and no other. Messages that wait for it are
sent within five seconds.`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeDestinations,
	}
	flags := c.Flags()
	flags.IntVar(&topic.Partitions, "partitions", 0, "number of partitions; 0: the brokers' default")
	flags.IntVar(&topic.Replicas, "replicas", 0, "replicas of each partition, of the queue or of the stream; 0: the brokers' default")
	flags.BoolVar(&topic.DryRun, "dry-run", false, "only ask the brokers whether they would create it")
	a.actionCommand(c, true, func(c *stateCall) (any, error) { return createTopic(c, topic) })
	return checked(c, func() error {
		if topic.Partitions < 0 || topic.Partitions > 10_000 || topic.Replicas < 0 || topic.Replicas > 100 {
			return wrong("--partitions is from 1 to 10000, --replicas from 1 to 100")
		}
		return nil
	})
}

func createTopic(c *stateCall, topic adapters.NewTopic) (any, error) {
	topic.Name = c.args[1]
	check := topic
	check.DryRun = true
	created, err := c.op.CreateTopic(c.ctx, c.args[0], check, "")
	if err == nil && created && !topic.DryRun {
		if err = c.agree("create topic " + topic.Name); err == nil {
			created, err = c.op.CreateTopic(c.ctx, c.args[0], topic, c.by)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case !created:
		c.say("nothing was changed: topic " + topic.Name + " exists")
	case topic.DryRun:
		c.say("the brokers would create topic " + topic.Name + "; nothing was changed")
	default:
		c.say("created topic " + topic.Name)
	}
	return topicAnswer{topic.Name, created, topic.DryRun}, nil
}

func (a *app) completeDestinations(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if cfg, err := a.loadState(); err == nil && len(args) == 0 {
		for name := range cfg.Destinations {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
