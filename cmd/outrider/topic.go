package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

func (a *app) topicCommand() *cobra.Command {
	return group(&cobra.Command{Use: "topic", Short: "Create topics that destinations deliver to"}, a.topicCreateCommand())
}

// topicOrder is a call of topic create.
type topicOrder struct {
	destination, by string
	topic           adapters.NewTopic
	yes, machine    bool
}

func (a *app) topicCreateCommand() *cobra.Command {
	var o topicOrder
	c := &cobra.Command{
		Use:   "create DESTINATION TOPIC",
		Short: "Create a Kafka topic that a destination may deliver to",
		Long: `Creates a topic with the connection and the user of a Kafka destination: its own topic,
or one that its template leads to and its "topics" allow, and no other. Messages that
wait for the topic are sent within five seconds.`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeDestinations,
	}
	flags := c.Flags()
	flags.IntVar(&o.topic.Partitions, "partitions", 0, "number of partitions; 0: the brokers' default")
	flags.IntVar(&o.topic.Replicas, "replicas", 0, "replicas of each partition; 0: the brokers' default")
	flags.BoolVar(&o.topic.DryRun, "dry-run", false, "only ask the brokers whether they would create it")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	flags.StringVar(&o.by, "by", "", "recorded in the audit log as the author; default: the user of this process")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		o.destination, o.topic.Name, o.machine = args[0], args[1], out.json()
		if o.topic.Partitions < 0 || o.topic.Partitions > 10_000 || o.topic.Replicas < 0 || o.topic.Replicas > 100 {
			return wrong("--partitions is from 1 to 10000, --replicas from 1 to 100")
		}
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error { return a.createTopic(c.Context(), op, o) })
	}
	return c
}

func (a *app) createTopic(ctx context.Context, op *operate.Operator, o topicOrder) error {
	check := o.topic
	check.DryRun = true
	created, err := op.CreateTopic(ctx, o.destination, check, "")
	if err != nil {
		return err
	}
	if created && !o.topic.DryRun {
		if err := a.agree(o.yes, "create topic "+o.topic.Name+"? [y/N] "); err != nil {
			return err
		}
		if created, err = op.CreateTopic(ctx, o.destination, o.topic, cmp.Or(o.by, currentUser())); err != nil {
			return err
		}
	}
	switch {
	case o.machine:
		return a.printJSON(map[string]any{"topic": o.topic.Name, "created": created, "dry_run": o.topic.DryRun})
	case !created:
		fmt.Fprintln(a.out, "nothing was changed: topic "+o.topic.Name+" exists")
	case o.topic.DryRun:
		fmt.Fprintln(a.out, "the brokers would create topic "+o.topic.Name+"; nothing was changed")
	default:
		fmt.Fprintln(a.out, "created topic "+o.topic.Name)
	}
	return nil
}

func (a *app) completeDestinations(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if cfg, err := a.loadState(); err == nil && len(args) == 0 {
		for name := range cfg.Destinations {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
