package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// parkedMessage is a parked message for machines.
type parkedMessage struct {
	ID            string            `json:"id"`
	Route         string            `json:"route"`
	Slot          int               `json:"slot"`
	Seq           int64             `json:"seq"`
	Group         string            `json:"group,omitempty"`
	Type          string            `json:"type"`
	Status        string            `json:"status"`
	Attempts      int               `json:"attempts"`
	NextAttemptAt *time.Time        `json:"next_attempt_at,omitempty"`
	ParkedAt      time.Time         `json:"parked_at"`
	Position      int64             `json:"position,omitempty"`
	LastError     string            `json:"last_error,omitempty"`
	Tries         []adapters.Try    `json:"tries,omitempty"`  // the latest failed attempts
	Source        string            `json:"source,omitempty"` // of a dead row in a queue's table
	Table         string            `json:"table,omitempty"`  // that table; absent: in the state store
	Metadata      map[string]string `json:"metadata,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`         // when it is JSON
	PayloadBytes  []byte            `json:"payload_base64,omitempty"`  // otherwise
	Omitted       int64             `json:"payload_omitted,omitempty"` // bytes of one that is not shown, because there are too many of the id
}

// newParked takes metadata and payload along only for show.
func newParked(p operate.ParkedMessage, whole bool) parkedMessage {
	m := parkedMessage{
		ID: p.ID, Route: p.Route, Slot: p.Slot, Seq: p.Seq, Group: p.Group, Type: p.Type, Status: string(p.Status),
		Attempts: p.Attempts, ParkedAt: p.ParkedAt, Position: p.Position, LastError: p.LastError,
		Source: p.Source, Table: p.Table,
	}
	if p.Status == adapters.ParkedRetrying && !p.NextAttemptAt.IsZero() {
		m.NextAttemptAt = &p.NextAttemptAt
	}
	if !whole {
		return m
	}
	m.Metadata, m.Tries = p.Metadata, p.Tries
	switch {
	case p.Bare:
		m.Omitted = p.Size
	case json.Valid(p.Payload):
		m.Payload = p.Payload
	default:
		m.PayloadBytes = p.Payload
	}
	return m
}

func (a *app) parkedCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "parked",
		Short: "List, retry, skip and delete parked messages",
		Long: `A parked message has one of these statuses:

  retrying  it has failed and is retried later
  waiting   it waits for an earlier message of its group, or for its address
  held      its attempts are used up, and its group waits for an operator
  dead      its attempts are used up, and its group continues without it

redrive retries messages, skip deletes messages that block their groups, and purge
deletes dead messages. See docs/parked.md.`,
	}, a.parkedListCommand(), a.parkedShowCommand(), a.redriveCommand(), a.skipCommand(), a.purgeCommand())
}

func (a *app) parkedListCommand() *cobra.Command {
	var f parkedFilter
	c := &cobra.Command{Use: "list", Short: "List parked messages", Args: noArgs}
	f.flags(a, c)
	f.statusFlag(c, "retrying", "waiting", "held", "dead")
	c.Flags().StringVar(&f.ID, "id", "", "only with this event id")
	c.Flags().IntVarP(&f.Limit, "limit", "n", 100, "maximum number of messages to list")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.Limit < 1 {
			return wrong("--limit must be at least 1")
		}
		return a.operate(c.Context(), func(cfg *config.Config, op *operate.Operator) error {
			if err := f.check(c.Context(), cfg, op); err != nil {
				return err
			}
			return a.listParked(c.Context(), op, f.ParkedFilter, out.json())
		})
	}
	return c
}

func (a *app) listParked(ctx context.Context, op *operate.Operator, f adapters.ParkedFilter, machine bool) error {
	f.Limit++ // one more shows that there are more
	rows, err := op.Parked(ctx, f)
	if err != nil {
		return err
	}
	more := len(rows) >= f.Limit
	rows = rows[:min(len(rows), f.Limit-1)]
	if machine {
		list := []parkedMessage{}
		for _, p := range rows {
			list = append(list, newParked(p, false))
		}
		return a.printJSON(parkedAnswer{list, more})
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.out, "no parked message matches")
		return nil
	}
	headings := []string{"ID", "ROUTE", "GROUP", "TYPE", "STATUS", "ATTEMPTS", "NEXT", "PARKED", "ERROR"}
	inTables := slices.ContainsFunc(rows, func(p operate.ParkedMessage) bool { return p.Table != "" })
	if inTables {
		headings = slices.Insert(headings, 5, "TABLE")
	}
	var cells [][]string
	for _, p := range rows {
		next := ""
		if p.Status == adapters.ParkedRetrying {
			next = ago(p.NextAttemptAt)
		}
		line := []string{p.ID, p.Route, p.Group, p.Type, string(p.Status), strconv.Itoa(p.Attempts),
			next, ago(p.ParkedAt), a.cut(p.LastError, 60)}
		if inTables {
			line = slices.Insert(line, 5, p.Table)
		}
		cells = append(cells, line)
	}
	err = a.printTable(headings, cells)
	if more {
		fmt.Fprintln(a.err, "more messages match: narrow the filter or raise --limit")
	}
	return err
}

func (a *app) parkedShowCommand() *cobra.Command {
	var route string
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a parked message with its payload, metadata and last error",
		Args:  cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&route, "route", "", "only of this route")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.operate(c.Context(), func(cfg *config.Config, op *operate.Operator) error {
			f := parkedFilter{ParkedFilter: adapters.ParkedFilter{ID: args[0], Route: route}}
			if err := f.check(c.Context(), cfg, op); err != nil {
				return err
			}
			rows, err := op.ParkedWhole(c.Context(), f.ParkedFilter, operate.WholeBytes)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				return fmt.Errorf("no parked message has the id %q: it was delivered, skipped or purged, or was never parked", args[0])
			}
			return a.showParked(rows, out.json())
		})
	}
	return c
}

// showParked shows the messages of one id: several when several routes parked it.
func (a *app) showParked(rows []operate.ParkedMessage, machine bool) error {
	if machine {
		list := []parkedMessage{}
		for _, p := range rows {
			list = append(list, newParked(p, true))
		}
		return a.printJSON(parkedAnswer{Parked: list})
	}
	for i, p := range rows {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := a.showOne(newParked(p, true)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showOne(m parkedMessage) error {
	cells := [][]string{
		{"id", m.ID}, {"route", m.Route}, {"lane", fmt.Sprintf("%s/%02d", m.Route, m.Slot)}, {"group", m.Group},
		{"type", m.Type}, {"status", m.Status}, {"in", m.place()}, {"attempts", strconv.Itoa(m.Attempts)},
		{"parked", m.ParkedAt.Format(time.RFC3339) + ", " + ago(m.ParkedAt)},
	}
	if m.NextAttemptAt != nil {
		cells = append(cells, []string{"next attempt", m.NextAttemptAt.Format(time.RFC3339) + ", " + ago(*m.NextAttemptAt)})
	}
	if m.Table == "" { // with the place in a log
		cells = slices.DeleteFunc(cells, func(c []string) bool { return c[0] == "in" })
	}
	cells = append(cells, []string{"position", strconv.FormatInt(m.Position, 10)}, []string{"last error", m.LastError})
	for _, t := range m.Tries {
		cells = append(cells, []string{"attempt " + strconv.Itoa(t.Number), t.At.Local().Format(time.RFC3339) + ": " + t.Error})
	}
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		cells = append(cells, []string{"metadata", plain(key) + ": " + m.Metadata[key]})
	}
	if err := a.printPairs(cells); err != nil {
		return err
	}
	if m.Omitted > 0 {
		fmt.Fprintf(a.out, "payload and metadata are not shown: those of all messages with this id are more than %d MiB; choose one by --route\n", operate.WholeBytes>>20)
		return nil
	}
	if m.Payload == nil {
		fmt.Fprintf(a.out, "payload (%d bytes that are not JSON, quoted):\n%q\n", len(m.PayloadBytes), m.PayloadBytes)
		return nil
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, m.Payload, "", "  "); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "payload:\n%s\n", pretty.Bytes())
	return nil
}

// place is where the message is, of a dead row in a queue's table.
func (m *parkedMessage) place() string {
	return fmt.Sprintf("table %s of source %s", m.Table, m.Source)
}
