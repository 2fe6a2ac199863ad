package status

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// CauseKind is the kind of cause that keeps a route from delivering, or none.
type CauseKind string

// The kinds of causes, in the order in which one is looked for.
const (
	CauseStopped     CauseKind = "stopped"             // the relay cannot run the route
	CauseState       CauseKind = "state_error"         // the state store cannot be read, or progress cannot be written
	CauseSource      CauseKind = "source_error"        // its source cannot be read
	CauseNoOwner     CauseKind = "no_owner"            // no live instance works it
	CauseAddress     CauseKind = "address_unavailable" // an address does not answer, or was paused
	CauseGroupHeld   CauseKind = "group_held"          // groups wait behind a dead message
	CausePaused      CauseKind = "paused"              // an operator paused the route
	CauseGroupPaused CauseKind = "group_paused"        // an operator paused groups of it; others flow
	CauseRetrying    CauseKind = "retrying"            // messages failed and are tried again
	CauseTransaction CauseKind = "long_transaction"    // a transaction keeps rows from being seen
	CauseStuck       CauseKind = "stuck"               // rows are not settled for long, and nothing explains it
	CauseBehind      CauseKind = "behind"              // the oldest row not delivered is too old
	CauseDead        CauseKind = "dead"                // it delivers; dead messages wait for an operator
	CauseForeign     CauseKind = "not_configured"      // the configuration does not have it: another relay's, or removed
	CauseStandby     CauseKind = "standby"             // another process has the lead
	CauseFine        CauseKind = "fine"                // it delivers what there is
)

// Cause is the one thing to know about a route, and what mends it.
type Cause struct {
	Kind   CauseKind `json:"kind" enum:"stopped,state_error,source_error,no_owner,address_unavailable,group_held,paused,group_paused,retrying,long_transaction,stuck,behind,dead,not_configured,standby,fine"`
	Text   string    `json:"text" doc:"The cause in one line."`
	Action string    `json:"action,omitempty" doc:"What to do; absent when there is nothing to do."`

	Address   string     `json:"address,omitempty" doc:"Address that is unavailable or paused."`
	Since     *time.Time `json:"since,omitempty"`
	Why       string     `json:"why,omitempty" doc:"The error, or the reason of a pause."`
	NextProbe *time.Time `json:"next_probe_at,omitempty" doc:"When an unavailable address is tried again."`

	Missing     bool   `json:"missing,omitempty" doc:"The address is a topic that does not exist; /destinations/{destination}/topics creates it."`
	Transaction string `json:"transaction,omitempty" doc:"Id of the long transaction, if /transactions/end can end it."`
}

// causes is the cause that goes with a state.
var causes = map[RouteState]CauseKind{
	StateStopped: CauseStopped, StateFailing: CauseSource, StateNoRelay: CauseNoOwner, StateUnavailable: CauseAddress, StateHeld: CauseGroupHeld, StateRetrying: CauseRetrying,
	StateBehind: CauseBehind, StatePaused: CausePaused, StateGroupPaused: CauseGroupPaused, StateDead: CauseDead, StateForeign: CauseForeign, StateStandby: CauseStandby, StateOK: CauseFine,
}

// Cause is why the route is in its state.
func (p *RouteStatus) Cause() Cause {
	c := Cause{Kind: causes[p.State]}
	switch {
	case p.State == StateStopped, p.State == StateForeign:
	case p.SourceError != "":
		c.Kind = CauseSource
	case p.StateError != "" && p.State == StateFailing:
		c.Kind = CauseState
	case p.Overdue != nil && p.Overdue.Cause == CauseStuck && (p.State == StateBehind || p.State == StateDead || p.State == StateOK):
		c.Kind = CauseStuck
	case p.LongTransaction != "" && (p.State == StateBehind || p.State == StateDead || p.State == StateOK):
		c.Kind = CauseTransaction
	}
	c.explain(p)
	return c
}

// explain writes text and action.
func (c *Cause) explain(p *RouteStatus) {
	switch c.Kind {
	case CauseStopped:
		c.Text, c.Why, c.Action = "the relay cannot run the route: "+p.Stopped, p.Stopped, "follow the error message; the relay then resumes automatically"
	case CauseSource:
		c.Text, c.Why, c.Action = "the source cannot be read: "+p.SourceError, p.SourceError, "fix the database; Outrider retries, and `outrider doctor` examines it"
	case CauseState:
		c.Text, c.Why, c.Action = "progress cannot be written: "+p.StateError, p.StateError, writeAction(p.StateError)
	case CauseNoOwner:
		c.Text, c.Action = p.unowned(), "start a relay: outrider run"
		if len(p.Idle) > 0 && len(p.Owned) > 0 {
			c.Text += "; " + strings.Join(p.Idle, ", ") + " is alive and has none"
			c.Action = "restart it: it may be frozen or unable to read the source"
		}
	case CauseAddress:
		c.address(p)
	case CauseGroupHeld:
		c.Text = counted(p.Held, "message is held", "messages are held") + fmt.Sprintf(", %d waiting behind others", p.Waiting)
		c.failing(p.Failing, "redrive or skip the first message of the group")
	case CausePaused:
		c.Text, c.Action = "paused"+by(p.Paused), "resume it: outrider resume "+p.Route
		c.Since, c.Why = &p.Paused.Since, p.Paused.Reason
	case CauseGroupPaused:
		first := &p.Groups[0]
		c.Text, c.Action = "group "+first.Group+" is paused"+by(first), "resume it: outrider resume "+p.Route+" --group "+strconv.Quote(first.Group)
		if n := len(p.Groups) - 1; n > 0 {
			c.Text += fmt.Sprintf(" (and %d more)", n)
		}
		c.Since, c.Why = &first.Since, first.Reason
	case CauseRetrying:
		c.Text = counted(p.Retrying, "message is retrying", "messages are retrying") + fmt.Sprintf(", %d waiting behind others", p.Waiting)
		c.failing(p.Failing, "")
	case CauseTransaction:
		c.Text, c.Why, c.Action, c.Transaction = p.LongTransaction, p.LongTransaction, p.LongTransactionFix, p.LongTransactionID
	case CauseStuck:
		c.Text, c.Since = fmt.Sprintf("%d rows of lanes %v are not settled and nothing explains it; the first one is %s, %s", p.Overdue.Rows, p.Overdue.Lanes, p.Overdue.ID, p.Overdue.Where), &p.Overdue.Since
		c.Action = "look at it with `outrider event ID`, restart the instance that owns the lane, and report it with its log"
	case CauseBehind:
		more := ""
		if p.BehindMore {
			more = "more than "
		}
		c.Text, c.Since = fmt.Sprintf("%s%d rows behind", more, *p.Behind), p.Oldest
		c.Action = "see whether the destination is slow, or add instances"
	case CauseDead:
		c.Text = "the route works; " + counted(p.Dead, "dead message waits", "dead messages wait")
		c.failing(p.Failing, "redrive or purge them")
	case CauseForeign:
		c.Text = "not in this configuration; run by " + strings.Join(p.RunBy, ", ")
		if len(p.RunBy) == 0 {
			c.Text = "not in this configuration, and no live instance runs it; retention keeps the rows that it has not settled"
			c.Action = "if it was removed, forget it: outrider route forget " + p.Route
		}
	case CauseStandby:
		c.Text = "instances stand by: another process is the leader"
	case CauseFine:
		c.Text = "the route works"
	}
}

// writeAction is the fix for progress that cannot be written.
func writeAction(err string) string {
	if strings.Contains(err, "No space left") || strings.Contains(err, "is full") {
		return "free space on its disk; Outrider retries"
	}
	if strings.Contains(err, context.DeadlineExceeded.Error()) {
		return "the database answers too slowly: see its load, locks and disk; Outrider retries"
	}
	return "fix the database; Outrider retries"
}

// address takes the address that is worst off: one that only an operator can bring back.
func (c *Cause) address(p *RouteStatus) {
	down := p.Down
	worst := &down[0]
	for i := range down {
		if down[i].Durable {
			worst = &down[i]
			break
		}
	}
	c.Address, c.Since, c.Why, c.NextProbe = worst.Address, &worst.Since, worst.Reason, worst.Probe
	c.Text = "address " + worst.Address
	if len(down) > 1 {
		c.Text = fmt.Sprintf("%d addresses are not in use; %s", len(down), worst.Address)
	}
	if worst.Durable {
		c.Text, c.Action = c.Text+" is paused"+by(worst), "resume it when the receiver is back"
		return
	}
	c.Text += " is unavailable: " + without(worst.Reason, worst.Address)
	create := p.TopicCommand(worst)
	c.Missing = create != ""
	c.Action = "fix the receiver; Outrider is probing it and resumes when it answers"
	switch {
	case c.Missing:
		c.Action = "create the topic: " + create + "; Outrider is probing it and resumes when it exists"
	case !strings.Contains(worst.Address, "://"):
		c.Action = "fix the destination; Outrider is probing it and resumes when it answers"
	}
}

// causeMost is how many characters of an error the line about a route has; all of it is with the message.
const causeMost = 300

// oneLine is the begin of an error as one line.
func oneLine(text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) <= causeMost {
		return string(line)
	}
	return string(line[:causeMost]) + "…"
}

func (c *Cause) failing(f *Failing, action string) {
	c.Action = action
	if f == nil {
		return
	}
	c.Since, c.Why = &f.Since, f.Error
	text, last := strings.CutSuffix(f.Error, " (no further attempts)")
	if text != "" {
		c.Text += ": " + oneLine(text)
	}
	if f.Next != nil && f.Status == adapters.ParkedRetrying {
		c.NextProbe = f.Next
	}
	if f.Attempts > 0 {
		c.Text += " (" + counted(f.Attempts, "attempt", "attempts")
		if last {
			c.Text += ", no further ones"
		}
		c.Text += ")"
	}
}

// unowned says how many lanes no live instance has.
func (p *RouteStatus) unowned() string {
	working, owners := 0, []string{}
	for _, o := range p.Owned {
		if o.Alive {
			working += len(o.Slots)
			owners = append(owners, o.Owner+" has "+strconv.Itoa(len(o.Slots)))
		}
	}
	if working == 0 {
		return "no live instance runs the route"
	}
	return fmt.Sprintf("%d of %d lanes have no owner; %s", p.Lanes-working, p.Lanes, strings.Join(owners, ", "))
}

// counted is a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// without is an error without the address that the sentence has named already, and without
// the kind of the destination in front of it.
func without(reason, address string) string {
	if i := strings.Index(reason, address); address != "" && i >= 0 && i <= len("webhook: ") {
		return strings.TrimSpace(reason[i+len(address):])
	}
	return reason
}

func by(s *Stop) string {
	text := ""
	if s.By != "" {
		text = " by " + s.By
	}
	if s.Reason != "" {
		text += ": " + without(s.Reason, s.Address)
	}
	return text
}

// missingTopic is in the error of an address that can be created, see [adapters.TopicCreator].
const missingTopic = "outrider topic create DESTINATION "

// TopicCommand is the command that creates the topic which an address of the route is, if that is what it lacks; otherwise empty.
func (p *RouteStatus) TopicCommand(s *Stop) string {
	if !strings.Contains(s.Reason, missingTopic) {
		return ""
	}
	return "outrider topic create " + cmp.Or(p.to, "DESTINATION") + " " + s.Address + " --yes"
}
