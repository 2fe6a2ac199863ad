package api

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/operate"
)

type transactionsIn struct {
	Source string `query:"source" maxLength:"200" doc:"Only those that rows of this source wait for."`
}

type transactionsOut struct {
	Body struct {
		Items []operate.Transaction `json:"items" nullable:"false" doc:"The longest first."`
	}
}

// EndOrder names the transaction to end.
type EndOrder struct {
	Author
	ID     string `json:"id" minLength:"1" maxLength:"200" doc:"Of a transaction, as /transactions shows it."`
	Source string `json:"source,omitempty" maxLength:"200" doc:"Where to look for it; default: in the databases of all sources."`
}

type endIn struct{ Body EndOrder }

// EndResult is the transaction that was ended.
type EndResult struct {
	Ended       bool                 `json:"ended" doc:"false: that very transaction has ended already, and nothing was changed."`
	Transaction *operate.Transaction `json:"transaction,omitempty"`
}

// TopicOrder is a topic to be created.
type TopicOrder struct {
	Author
	Topic      string `json:"topic" minLength:"1" maxLength:"249" doc:"One that the destination may deliver to."`
	Partitions int    `json:"partitions,omitempty" minimum:"1" maximum:"10000" doc:"Default: the brokers'."`
	Replicas   int    `json:"replicas,omitempty" minimum:"1" maximum:"100" doc:"Of each partition. Default: the brokers'."`
	DryRun     bool   `json:"dry_run,omitempty" doc:"The brokers only check whether they would create it."`
}

type topicIn struct {
	Destination string `path:"destination" maxLength:"200"`
	Body        TopicOrder
}

// TopicResult is the result of the order.
type TopicResult struct {
	Topic   string `json:"topic"`
	Created bool   `json:"created" doc:"false: it exists. With dry_run: it would be created."`
	DryRun  bool   `json:"dry_run"`
}

// ProbeOrder names an address.
type ProbeOrder struct {
	Address string `json:"address" minLength:"1" maxLength:"4000" doc:"As it is shown."`
}

type probeIn struct {
	RouteIn
	Body ProbeOrder
}

// ProbeResult says whether there was something to try.
type ProbeResult struct {
	Trying bool `json:"trying" doc:"false: no probe of it was planned here, because it is in use, paused or being tried, or nothing waits for it."`
}

type removeIn struct {
	Instance string `path:"instance" maxLength:"200"`
	Body     Author
}

// RemoveResult says whether there was such an instance.
type RemoveResult struct {
	Instance string `json:"instance"`
	Removed  bool   `json:"removed" doc:"false: there is none."`
}

// addRepair adds what ends trouble outside of Outrider.
func (s *service) addRepair() {
	transactions := get("/transactions", "list-transactions", "Transactions that have been open so long that rows wait for them, and that can be ended")
	transactions.role = operate.RoleAdmin // it shows statements
	add(s, transactions, s.transactions)
	add(s, act("end-transaction", "/transactions/end"), s.endTransaction)
	add(s, act("create-topic", "/destinations/{destination}/topics"), s.createTopic)
	add(s, act("probe", "/routes/{route}/probe"), s.probe)
	add(s, act("remove-instance", "/instances/{instance}/remove"), s.removeInstance)
}

func (s *service) transactions(ctx context.Context, in *transactionsIn) (*transactionsOut, error) {
	if err := checkText("source", in.Source); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, action.RequestTime)
	defer cancel()
	out := &transactionsOut{}
	return out, s.console.Use(limited, func(op *operate.Operator) (err error) {
		out.Body.Items, err = op.Transactions(limited, in.Source)
		return err
	})
}

func (s *service) endTransaction(ctx context.Context, in *endIn) (*one[EndResult], error) {
	if err := checkText("id", in.Body.ID, "source", in.Body.Source, "by", in.Body.By); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, action.RequestTime)
	defer cancel()
	out := &one[EndResult]{}
	return out, s.console.Use(limited, func(op *operate.Operator) (err error) {
		out.Body.Transaction, err = op.EndTransaction(limited, in.Body.Source, in.Body.ID, author(ctx, in.Body.Author))
		out.Body.Ended = out.Body.Transaction != nil
		return err
	})
}

func (s *service) createTopic(ctx context.Context, in *topicIn) (*one[TopicResult], error) {
	if err := checkText("topic", in.Body.Topic, "by", in.Body.By); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, action.RequestTime)
	defer cancel()
	topic := adapters.NewTopic{Name: in.Body.Topic, Partitions: in.Body.Partitions, Replicas: in.Body.Replicas, DryRun: in.Body.DryRun}
	created, err := s.console.CreateTopic(limited, in.Destination, topic, author(ctx, in.Body.Author))
	return &one[TopicResult]{TopicResult{topic.Name, created, topic.DryRun}}, err
}

func (s *service) probe(ctx context.Context, in *probeIn) (*one[ProbeResult], error) {
	err := s.console.Use(ctx, func(op *operate.Operator) error { return op.Known(ctx, in.Route) })
	if err != nil {
		return nil, err
	}
	return &one[ProbeResult]{ProbeResult{s.console.Probe(in.Route, in.Body.Address)}}, nil
}

func (s *service) removeInstance(ctx context.Context, in *removeIn) (*one[RemoveResult], error) {
	if err := checkText("instance", in.Instance, "by", in.Body.By); err != nil {
		return nil, err
	}
	out := &one[RemoveResult]{RemoveResult{Instance: in.Instance}}
	return out, s.console.Use(ctx, func(op *operate.Operator) (err error) {
		out.Body.Removed, err = op.RemoveInstance(ctx, in.Instance, author(ctx, in.Body))
		return err
	})
}
