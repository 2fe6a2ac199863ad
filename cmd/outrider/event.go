package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

func (a *app) eventCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "event ID",
		Short: "Show where an event is: waiting, in flight, delivered, parked or dead",
		Long: `Searches the tables of all sources and the state stores for an event. A relay with the
same state store that answers on the configured admin address also reports messages in
flight, and when the event was settled. See docs/operations.md.`,
		Args: cobra.ExactArgs(1),
	}
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error {
			j, err := op.Journey(c.Context(), args[0])
			if err != nil {
				return err
			}
			askEvent(c.Context(), op, j)
			if out.json() {
				return a.printJSON(j)
			}
			return a.printJourney(j)
		})
	}
	return c
}

// askEvent adds what the relay on the configured admin address knows of the event.
func askEvent(ctx context.Context, op *operate.Operator, j *operate.Journey) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	live := &operate.Journey{}
	switch err := console.Ask(ctx, op, "/api/v1/events/"+url.PathEscape(j.ID), live); {
	case errors.Is(err, console.ErrNoRelay):
		j.Notes = append(j.Notes, console.ErrNoRelay.Error()+": what is in flight is not known")
	case err != nil:
		j.Notes = append(j.Notes, "what is in flight is not known: "+err.Error())
	default:
		j.Merge(live)
	}
}

func (a *app) printJourney(j *operate.Journey) error {
	if len(j.Places) == 0 {
		fmt.Fprintf(a.out, "no event with the id %q was found\n", j.ID)
	}
	for i := range j.Places {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := a.printPairs(eventPairs(&j.Places[i])); err != nil {
			return err
		}
	}
	for _, n := range j.Notes {
		fmt.Fprintln(a.err, plain(n))
	}
	return nil
}

// eventPairs are the facts about a place.
func eventPairs(p *operate.EventPlace) (cells [][]string) {
	add := func(name, value string) {
		if value != "" {
			cells = append(cells, []string{name, value})
		}
	}
	at := func(name string, t *time.Time) {
		if t != nil {
			add(name, t.Format(time.RFC3339)+", "+ago(*t))
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			add(name, strconv.FormatInt(n, 10))
		}
	}
	add("route", p.Route)
	add("is", p.Text)
	add("do", p.Action)
	add("source", p.Source)
	add("table", p.Table)
	if p.Slot != nil && p.Route != "" {
		add("lane", fmt.Sprintf("%s/%02d", p.Route, *p.Slot))
	}
	add("owner", p.Owner)
	add("group", p.Group)
	add("type", p.Type)
	number("position", p.Position)
	if p.Cursor != nil {
		add("settled up to", strconv.FormatInt(*p.Cursor, 10))
	}
	at("created", p.Created)
	at("in flight since", p.Since)
	number("attempt", int64(p.Attempt))
	at("settled after", p.After)
	at("settled by", p.By)
	at("parked", p.Parked)
	number("failed attempts", int64(p.Attempts))
	at("next attempt", p.Next)
	add("last error", p.Error)
	for _, t := range p.Tries {
		add("attempt "+strconv.Itoa(t.Number), t.At.Format(time.RFC3339)+": "+t.Error)
	}
	return cells
}
