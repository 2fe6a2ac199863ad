package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/admin/status"
)

// confirmEnd shows the transaction that will be ended.
func (s *pages) confirmEnd(ctx context.Context, q url.Values, d *confirmData) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	source, id := q.Get("source"), q.Get("transaction")
	var open []operate.Transaction
	err := s.console.Use(ctx, func(op *operate.Operator) (err error) {
		open, err = op.Transactions(ctx, source)
		return err
	})
	i := slices.IndexFunc(open, func(t operate.Transaction) bool { return t.ID == id })
	if err != nil || i < 0 {
		d.Nothing = "The transaction has ended already."
		return err
	}
	t := &open[i]
	d.Grave, d.Verb = true, "End the transaction"
	d.Fields = [][2]string{{"source", source}, {"transaction", id}}
	d.Facts = [][2]string{{"process", strconv.Itoa(t.Process)}, {"application", t.Application}, {"user", t.User}, {"client", t.Client},
		{"open for", (time.Duration(t.OpenSeconds) * time.Second).String()}, {"state", t.State}, {"statement", t.Statement}}
	d.Undone = []string{"Its session is ended, and all that the transaction has written is rolled back. The program gets an error, and may connect again.",
		"This cannot be undone. Only this very transaction is ended: if it ends before you confirm, nothing happens."}
	return nil
}

func (s *pages) endTransaction(ctx context.Context, form url.Values) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var t *operate.Transaction
	err = s.console.Use(ctx, func(op *operate.Operator) (err error) {
		t, err = op.EndTransaction(ctx, form.Get("source"), form.Get("transaction"), operate.PageAuthor(ctx))
		return err
	})
	switch {
	case err != nil && server.StatusOf(err) == http.StatusForbidden:
		return "", failed(http.StatusForbidden, "%v", err)
	case err != nil || t == nil:
		return "Nothing changed: the transaction has ended already.", err
	}
	return "Ended the transaction of " + strings.TrimSpace(t.Application+" (process "+strconv.Itoa(t.Process)) + "). It is rolled back.", nil
}

// choice is a number that may be given with an action.
type choice struct {
	Name, Label, Default string
	Most                 int
}

// The most partitions and replicas that a topic is created with.
const (
	partitionsMost = 10_000
	replicasMost   = 100
)

// topicOf reads which topic is to be created.
func topicOf(values url.Values) (t adapters.NewTopic, err error) {
	t.Name = values.Get("topic")
	for _, n := range []struct {
		name string
		most int
		to   *int
	}{{"partitions", partitionsMost, &t.Partitions}, {"replicas", replicasMost, &t.Replicas}} {
		text := values.Get(n.name)
		if text == "" {
			continue
		}
		if *n.to, err = strconv.Atoi(text); err != nil || *n.to < 1 || *n.to > n.most {
			return t, failed(http.StatusUnprocessableEntity, "%s is a number from 1 to %s", n.name, number(n.most))
		}
	}
	return t, nil
}

// confirmTopic has the brokers check whether they would create a topic.
func (s *pages) confirmTopic(ctx context.Context, q url.Values, d *confirmData) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	destination, topic := q.Get("destination"), adapters.NewTopic{Name: q.Get("topic"), DryRun: true}
	creatable, err := s.console.CreateTopic(ctx, destination, topic, "")
	if err != nil || !creatable {
		d.Nothing = "The topic exists already."
		return err
	}
	d.Verb = "Create the topic"
	d.Fields = [][2]string{{"destination", destination}, {"topic", topic.Name}}
	d.Facts = [][2]string{{"topic", topic.Name}, {"destination", destination}}
	d.Numbers = []choice{{"partitions", "Partitions", "default", partitionsMost}, {"replicas", "Replicas of each", "default", replicasMost}}
	d.Undone = []string{"The messages that wait for the topic are sent as soon as it is there. Leave the numbers empty for the brokers' defaults.",
		"Outrider never deletes a topic, so this cannot be undone here. Partitions that are added later change which partition a key goes to."}
	return nil
}

func (s *pages) createTopic(ctx context.Context, form url.Values) (said string, err error) {
	topic, err := topicOf(form)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	created, err := s.console.CreateTopic(ctx, form.Get("destination"), topic, operate.PageAuthor(ctx))
	if !created {
		return "Nothing changed: topic " + topic.Name + " exists already.", err
	}
	return "Created topic " + topic.Name + ". What waits for it is sent now.", err
}

// probe tries an address at once.
func (s *pages) probe(form url.Values) string {
	address := form.Get("address")
	if s.console.Probe(form.Get("route"), address) {
		return "Trying " + address + " now."
	}
	return "Nothing to try: " + address + " is in use again, or is being tried."
}

// confirmRemoval shows the instance that will be removed.
func (s *pages) confirmRemoval(ctx context.Context, q url.Values, d *confirmData) {
	members := s.console.Status(ctx).Instances
	i := slices.IndexFunc(members, func(m status.Member) bool { return m.ID == q.Get("instance") })
	if i < 0 {
		d.Nothing = "There is no such instance: it has left."
		return
	}
	m := &members[i]
	alive := "yes"
	if !m.Alive {
		alive = "no"
	}
	d.Grave, d.Verb = true, "Remove "+m.ID
	d.Fields = [][2]string{{"instance", m.ID}}
	d.Facts = [][2]string{{"instance", m.ID}, {"alive", alive}, {"lanes", number(m.Lanes)}, {"joined", m.JoinedAt.UTC().Format(time.DateTime) + " UTC"},
		{"heartbeat", m.Heartbeat.UTC().Format(time.DateTime) + " UTC"}}
	d.Undone = []string{"Its registration is deleted and the database session that shows that it lives is ended, so others take its lanes.",
		"Nothing is lost: what it settles of lanes that others have is refused. If it still delivers, messages in flight may arrive twice.",
		"An instance that runs joins again within seconds and gets its share of the lanes. If it takes nothing, restart it or stop it."}
}

func (s *pages) removeInstance(ctx context.Context, form url.Values) (said string, err error) {
	id, removed := form.Get("instance"), false
	err = s.console.Use(ctx, func(op *operate.Operator) (err error) {
		removed, err = op.RemoveInstance(ctx, id, operate.PageAuthor(ctx))
		return err
	})
	if !removed {
		return "Nothing changed: instance " + id + " has left.", err
	}
	return "Removed instance " + id + ". Others take its lanes.", err
}
