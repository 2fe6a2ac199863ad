package model

import (
	"encoding/json"
	"fmt"
)

// change is what a trace says of the status of a row: waiting, claimed, done, dead or gone.
type change struct {
	ID    string `json:"id"`
	Relay string `json:"relay"` // that changed it
	From  string `json:"from"`
	To    string `json:"to"`
}

// TranslateQueue is [Translate] for a table whose rows have a status.
func TranslateQueue(trace []Record) (*Plan, []Event, error) {
	q := &queueTranslation{translation: newTranslation(), holder: map[int]int{}}
	err := q.translate(trace, q.changed)
	return &q.plan, q.events, err
}

type queueTranslation struct {
	*translation
	holder map[int]int // relays, by row
}

// changed adds what one transaction has changed.
func (q *queueTranslation) changed(records []Record) error {
	var claim, free Set
	var wrote Event
	relay := 0
	for _, r := range records {
		var c change
		if err := json.Unmarshal(r.Doc, &c); err != nil {
			return err
		}
		row, known := q.number[c.ID]
		if !known {
			continue
		}
		relay = q.relays.number(c.Relay)
		holder := q.holder[row]
		switch c.From + " " + c.To {
		case "waiting claimed":
			claim |= Of(row)
			q.holder[row] = relay
		case "claimed done":
			wrote.Covered |= Of(row)
		case "claimed dead":
			wrote.Dead |= Of(row)
		case "claimed waiting":
			if holder == relay {
				wrote.Parked |= Of(row)
			} else {
				free |= Of(row)
			}
		case "dead waiting":
			q.events = append(q.events, Event{Kind: Redrive, Row: row})
		case "dead gone":
			q.events = append(q.events, Event{Kind: Drop, Row: row})
		default:
			return fmt.Errorf("row %s was %s, and is %s", c.ID, c.From, c.To)
		}
	}
	if free != 0 {
		q.events = append(q.events, Event{Kind: Freed, Relay: relay, Parked: free})
	}
	if wrote != (Event{}) {
		wrote.Kind, wrote.Relay = Wrote, relay
		q.events = append(q.events, wrote)
	}
	if claim != 0 {
		q.events = append(q.events, Event{Kind: Claim, Relay: relay, Covered: claim})
	}
	return nil
}

// SeenInQueue is [Seen] for a table whose rows have a status.
func SeenInQueue(p *Plan, events []Event) map[string]int {
	w, seen := &QueueRules{}, map[string]int{}
	for _, e := range events {
		switch e.Kind { //nolint:exhaustive // those that make it interesting
		case Freed:
			seen["freed"] += e.Parked.Len()
		case Send:
			if w.Holder[e.Row] != relay(e.Relay) {
				seen["sent without a claim that is valid"]++
			}
			if e.OK && w.Delivered.Has(e.Row) {
				seen["delivered twice"]++
			}
		case Claim:
			for _, tried := range w.Tried {
				seen["claimed again"] += (e.Covered & tried).Len()
			}
		case Wrote:
			seen["put back"] += e.Parked.Len()
			seen["dead"] += e.Dead.Len()
		case Drop, Redrive:
			seen[string(e.Kind)]++
		}
		if w.Do(p, e) != nil {
			break
		}
	}
	return seen
}
