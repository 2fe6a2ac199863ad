package action

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/admin/status"
)

// ofRelays are actions on relays, and on what is around them.
var ofRelays = []*Action{
	{
		Name: "end-transaction", Role: operate.RoleAdmin, Command: "transactions end", Title: "End a transaction", Plan: planEnd, Do: endTransaction,
		Summary: "Roll a transaction back by ending its session",
	},
	{
		Name: "create-topic", Role: operate.RoleAdmin, Command: "topic create", Title: "Create a topic", Plan: planTopic, Do: createTopic,
		Summary: "Create a topic that the destination may deliver to",
	},
	{
		Name: "probe", Role: operate.RoleOperate, Do: probe,
		Summary: "Try an address that is down at once, in this instance",
	},
	{
		Name: "remove-instance", Role: operate.RoleAdmin, Command: "instance remove", Title: "Remove an instance", Plan: planRemoval, Do: removeInstance,
		Summary: "Take an instance's lanes away and delete its registration; one that runs joins again",
	},
	{
		Name: "retain", Role: operate.RoleAdmin, Command: "retention", Title: "Remove old rows", Plan: planRetain, Do: retain,
		Summary: "Remove now what retention would remove; a running relay does so by itself",
	},
	{
		Name: "reload", Role: operate.RoleAdmin, Title: "Reload the configuration", Plan: planReload, Do: reload,
		Summary: "Read the configuration file again and put it to work",
	},
}

func planEnd(ctx context.Context, c *console.Console, v url.Values) (*Plan, error) {
	source, id := v.Get("source"), v.Get("transaction")
	open, err := use(ctx, c, func(ctx context.Context, op *operate.Operator) ([]operate.Transaction, error) {
		return op.Transactions(ctx, source)
	})
	i := slices.IndexFunc(open, func(t operate.Transaction) bool { return t.ID == id })
	if err != nil || i < 0 {
		return &Plan{Nothing: "The transaction has ended already."}, err
	}
	t := &open[i]
	return &Plan{
		Verb: "End the transaction", Grave: true, Fields: [][2]string{{"source", source}, {"transaction", id}},
		Facts: [][2]string{{"process", strconv.Itoa(t.Process)}, {"application", t.Application}, {"user", t.User}, {"client", t.Client},
			{"open for", (time.Duration(t.OpenSeconds) * time.Second).String()}, {"state", t.State}, {"statement", t.Statement}},
		Undone: []string{"Its session is ended, and all that the transaction has written is rolled back. The program gets an error, and may connect again.",
			"This cannot be undone. Only this very transaction is ended: if it ends before you confirm, nothing happens."},
	}, nil
}

func endTransaction(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	t, err := use(ctx, c, func(ctx context.Context, op *operate.Operator) (*operate.Transaction, error) {
		return op.EndTransaction(ctx, v.Get("source"), v.Get("transaction"), operate.PageAuthor(ctx))
	})
	if err != nil || t == nil {
		return "Nothing changed: the transaction has ended already.", err
	}
	return "Ended the transaction of " + strings.TrimSpace(t.Application+" (process "+strconv.Itoa(t.Process)) + "). It is rolled back.", nil
}

// The most partitions and replicas that a topic is created with.
const (
	partitionsMost = 10_000
	replicasMost   = 100
)

// topicOf reads which topic is to be created.
func topicOf(v url.Values) (t adapters.NewTopic, err error) {
	t.Name = v.Get("topic")
	for _, n := range []struct {
		name string
		most int
		to   *int
	}{{"partitions", partitionsMost, &t.Partitions}, {"replicas", replicasMost, &t.Replicas}} {
		text := v.Get(n.name)
		if text == "" {
			continue
		}
		if *n.to, err = strconv.Atoi(text); err != nil || *n.to < 1 || *n.to > n.most {
			return t, server.Failed(http.StatusUnprocessableEntity, "%s is a number from 1 to %s", n.name, Thousands(n.most))
		}
	}
	return t, nil
}

// planTopic has the brokers check whether they would create a topic.
func planTopic(ctx context.Context, c *console.Console, v url.Values) (*Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	destination, topic := v.Get("destination"), v.Get("topic")
	creatable, err := c.CreateTopic(ctx, destination, adapters.NewTopic{Name: topic, DryRun: true}, "")
	if err != nil || !creatable {
		return &Plan{Nothing: "The topic exists already."}, err
	}
	return &Plan{
		Verb: "Create the topic", Fields: [][2]string{{"destination", destination}, {"topic", topic}},
		Facts:   [][2]string{{"topic", topic}, {"destination", destination}},
		Numbers: []Number{{"partitions", "Partitions", partitionsMost}, {"replicas", "Replicas of each", replicasMost}},
		Undone: []string{"The messages that wait for the topic are sent as soon as it is there. Leave the numbers empty for the brokers' defaults.",
			"Outrider never deletes a topic, so this cannot be undone here. Partitions that are added later change which partition a key goes to."},
	}, nil
}

func createTopic(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	topic, err := topicOf(v)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	created, err := c.CreateTopic(ctx, v.Get("destination"), topic, operate.PageAuthor(ctx))
	if !created {
		return "Nothing changed: topic " + topic.Name + " exists already.", err
	}
	return "Created topic " + topic.Name + ". What waits for it is sent now.", err
}

func probe(_ context.Context, c *console.Console, v url.Values) (string, error) {
	address := v.Get("address")
	if c.Probe(v.Get("route"), address) {
		return "Trying " + address + " now.", nil
	}
	return "Nothing to try: " + address + " is in use again, or is being tried.", nil
}

func planRemoval(ctx context.Context, c *console.Console, v url.Values) (*Plan, error) {
	members := c.Status(ctx).Instances
	i := slices.IndexFunc(members, func(m status.Member) bool { return m.ID == v.Get("instance") })
	if i < 0 {
		return &Plan{Nothing: "There is no such instance: it has left."}, nil
	}
	m, alive := &members[i], "yes"
	if !m.Alive {
		alive = "no"
	}
	return &Plan{
		Verb: "Remove " + m.ID, Grave: true, Fields: [][2]string{{"instance", m.ID}},
		Facts: [][2]string{{"instance", m.ID}, {"alive", alive}, {"lanes", Thousands(m.Lanes)}, {"joined", m.JoinedAt.UTC().Format(time.DateTime) + " UTC"},
			{"heartbeat", m.Heartbeat.UTC().Format(time.DateTime) + " UTC"}},
		Undone: []string{"Its registration is deleted and the database session that shows that it lives is ended, so others take its lanes.",
			"Nothing is lost: what it settles of lanes that others have is refused. If it still delivers, messages in flight may arrive twice.",
			"An instance that runs joins again within seconds and gets its share of the lanes. If it takes nothing, restart it or stop it."},
	}, nil
}

func removeInstance(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	id, removed := v.Get("instance"), false
	err := c.Use(ctx, func(op *operate.Operator) (err error) {
		removed, err = op.RemoveInstance(ctx, id, operate.PageAuthor(ctx))
		return err
	})
	if !removed {
		return "Nothing changed: instance " + id + " has left.", err
	}
	return "Removed instance " + id + ". Others take its lanes.", err
}

// Retained removes what can go, or counts it, for as long as a request may.
func Retained(ctx context.Context, c *console.Console, dryRun bool, by string) ([]adapters.RetentionStats, error) {
	return use(ctx, c, func(ctx context.Context, op *operate.Operator) ([]adapters.RetentionStats, error) {
		return op.Retain(ctx, dryRun, by)
	})
}

// removed says how many rows and partitions are removed.
func removed(all []adapters.RetentionStats) (rows, sum int, text string) {
	partitions := 0
	for _, s := range all {
		rows, partitions = rows+int(s.Rows), partitions+int(s.Partitions)
	}
	text = Plural(rows, "row", "rows")
	if partitions > 0 {
		text = Plural(partitions, "partition", "partitions") + " and " + text
	}
	return rows, rows + partitions, text
}

func planRetain(ctx context.Context, c *console.Console, _ url.Values) (*Plan, error) {
	all, err := Retained(ctx, c, true, operate.PageAuthor(ctx))
	rows, sum, text := removed(all)
	p := &Plan{
		Verb: "Remove " + text, Grave: true, Count: rows, Unit: "rows", Back: "/retention",
		Undone: []string{"All routes have settled them and they are older than the source keeps rows. A running relay removes them by itself; this does it now, with what became old enough meanwhile.",
			"This cannot be undone: no seek delivers them again."},
	}
	if sum == 0 {
		p.Nothing = "Nothing to remove: no row is old enough and settled by all routes."
	}
	return p, err
}

func retain(ctx context.Context, c *console.Console, _ url.Values) (string, error) {
	all, err := Retained(ctx, c, false, operate.PageAuthor(ctx))
	_, sum, text := removed(all)
	if operate.IsUnavailable(err) && sum > 0 {
		return "Removed " + text + ". The time of a request was over: there may be more.", nil
	}
	return "Removed " + text + ".", err
}

func planReload(context.Context, *console.Console, url.Values) (*Plan, error) {
	return &Plan{Verb: "Reload",
		Undone: []string{"Routes that changed finish what is in flight and begin again. If the file is wrong nothing changes, and the error is shown here."}}, nil
}

func reload(ctx context.Context, c *console.Console, _ url.Values) (string, error) {
	if err := c.Reload(ctx, operate.PageAuthor(ctx)); err != nil {
		if server.StatusOf(err) != http.StatusInternalServerError {
			return "", err
		}
		return "", server.Failed(http.StatusConflict, "the configuration was not changed: %v", err)
	}
	return strings.TrimSpace("Reloaded: " + Plural(len(c.Config().Routes), "route", "routes") + " at work. " + Pending(c)), nil
}

// Pending says which part of the file a reload has not applied; empty: none.
func Pending(c *console.Console) string {
	sections := c.Pending()
	if len(sections) == 0 {
		return ""
	}
	return "Restart the relay to apply what has changed in " + strings.Join(sections, " and ") + "."
}
