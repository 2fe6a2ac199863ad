package action

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

var ofMessages = []*Action{
	change{adapters.ParkedRedrive, "Redrive", "Redrove", false, []string{
		"They are tried again now, with fresh attempts. A receiver that took one before without answering gets it again.",
	}}.of(operate.RoleOperate, "Redrive messages", "Deliver dead, held or retrying messages again, now"),
	change{adapters.ParkedSkip, "Skip", "Skipped", true, []string{
		"They are never delivered, and their groups go on behind them.",
		"This cannot be undone. The rows stay in the outbox table until its retention removes them: a seek back delivers them again, with everything behind them.",
	}}.of(operate.RoleOperate, "Skip messages", "Delete messages that hold their group back"),
	change{adapters.ParkedPurge, "Purge", "Purged", true, []string{
		"They are deleted from the state store; dead rows of a queue are deleted from its table.", "This cannot be undone.",
	}}.of(operate.RoleAdmin, "Purge dead messages", "Delete dead messages"),
}

// change is a change of parked messages.
type change struct {
	action     adapters.ParkedAction
	verb, done string
	grave      bool
	undone     []string
}

// of completes the action.
func (ch change) of(role operate.Role, title, summary string) *Action {
	name := string(ch.action)
	return &Action{Name: name, Role: role, Command: "parked " + name, Title: title, Summary: summary, Plan: ch.plan, Do: ch.do}
}

// Background is from how many messages a change is an operation, with its progress.
const Background = 1000

// samplesMost is how many messages a plan shows.
const samplesMost = 5

func (ch change) plan(ctx context.Context, c *console.Console, v url.Values) (*Plan, error) {
	f, set, err := Filter(v)
	if err != nil {
		return nil, err
	}
	p := &Plan{Grave: ch.grave, Selected: set}
	counting, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	err = c.Search(counting, func(ctx context.Context, op *operate.Operator) (err error) {
		p.Counts, err = op.CountParked(ctx, adapters.ParkedCommand{Action: ch.action, Filter: f, All: f.IsZero()})
		if err == nil {
			p.Samples, err = ch.samples(ctx, op, f)
		}
		return err
	})
	if err != nil && counting.Err() != nil && ctx.Err() == nil {
		return nil, server.Failed(http.StatusServiceUnavailable, "the messages could not be counted in %v: add a route to the filter, or use `outrider parked %s`, which takes its time", RequestTime, ch.action)
	}
	for _, n := range p.Counts {
		p.Count += n.Count
	}
	p.Verb = ch.verb + " " + Plural(p.Count, "message", "messages")
	p.Fields = append(p.Fields, set...)
	p.Fields = append(p.Fields, [2]string{"count", strconv.Itoa(p.Count)})
	p.Undone = append(p.Undone, ch.undone...)
	if p.Paced = p.Count > Background; p.Paced {
		p.Undone = append(p.Undone, "So many are changed in the background: the page Operations shows the progress and can stop it.")
	}
	if p.Count == 0 {
		p.Nothing = "Nothing to " + string(ch.action) + ": no message matches, or they have been delivered meanwhile."
	}
	return p, err
}

// samples are the first messages that the filter selects and the action can change.
func (ch change) samples(ctx context.Context, op *operate.Operator, f adapters.ParkedFilter) (out []operate.ParkedMessage, err error) {
	for _, status := range ch.action.Statuses(f) {
		if f.Status, f.Limit = status, samplesMost-len(out); f.Limit <= 0 {
			break
		}
		found, err := op.Parked(ctx, f)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// do changes at most as many messages as were confirmed.
func (ch change) do(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	f, _, err := Filter(v)
	if err != nil {
		return "", err
	}
	count, err := strconv.Atoi(v.Get("count"))
	if err != nil || count <= 0 {
		return "", server.Failed(http.StatusUnprocessableEntity, "the form does not say how many messages were confirmed: open the page again")
	}
	command := adapters.ParkedCommand{Action: ch.action, Filter: f, All: f.IsZero(), By: operate.PageAuthor(ctx)}
	command.Filter.Limit = count
	if count > Background {
		return ch.start(ctx, c, command, v.Get("rate"))
	}
	limited, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	changed := 0
	err = c.Use(ctx, func(op *operate.Operator) (err error) {
		changed, err = op.ChangeParked(limited, command, operate.RateLimit{})
		return err
	})
	if limited.Err() != nil && changed > 0 {
		err = nil
	}
	said := fmt.Sprintf("%s %s.", ch.done, Plural(changed, "message", "messages"))
	if changed < count {
		said += fmt.Sprintf(" %s of the %s confirmed ones remain, or were delivered meanwhile.", Thousands(count-changed), Thousands(count))
	}
	return said, err
}

// start orders a change of many messages as an operation.
func (ch change) start(ctx context.Context, c *console.Console, command adapters.ParkedCommand, pace string) (said string, err error) {
	rate := 0
	if pace != "" {
		if rate, err = strconv.Atoi(pace); err != nil || rate < 1 || rate > 1_000_000 {
			return "", server.Failed(http.StatusUnprocessableEntity, "the rate is a number of messages a second, from 1 to 1,000,000")
		}
	}
	err = c.Use(ctx, func(op *operate.Operator) error {
		plan, err := op.PlanOperation(ctx, operate.OperationOrder{Kind: adapters.OperationKind(ch.action), Filter: command.Filter, All: command.All,
			Rate: float64(rate), By: command.By})
		if err != nil {
			return err
		}
		started, err := op.StartOperation(ctx, plan)
		said = Started + string(ch.action) + " of " + Plural(plan.Total, "message", "messages") + "."
		if len(started) == 0 {
			said = "Nothing to " + string(ch.action) + " any more."
		}
		return err
	})
	return said, err
}
