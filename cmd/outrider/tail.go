package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// tailedRow is a row for machines, one JSON object per line.
type tailedRow struct {
	Position      int64             `json:"position"`
	Slot          int               `json:"slot"`
	ID            string            `json:"id"`
	Type          string            `json:"type"`
	Group         string            `json:"group,omitempty"`
	AggregateType string            `json:"aggregate_type,omitempty"`
	AggregateID   string            `json:"aggregate_id,omitempty"`
	Tenant        string            `json:"tenant,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	CreatedAt     *time.Time        `json:"created_at,omitempty"`
	Late          bool              `json:"late,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`        // when it is JSON
	PayloadBytes  []byte            `json:"payload_base64,omitempty"` // otherwise
	Error         string            `json:"error,omitempty"`          // why it cannot be decoded
}

func (a *app) tailCommand() *cobra.Command {
	var from, match string
	var limit int
	c := &cobra.Command{
		Use:   "tail SOURCE|ROUTE",
		Short: "Follow the rows of an outbox table as they are committed",
		Long: `Prints rows as they are committed to the table of a source, or only those that a route
matches, until Ctrl-C. It only reads and stores no cursor; deliveries do not change.

--match selects by type and group: a pattern of types such as order.*, followed by
/GROUP for a single group. */42 matches all messages of group 42.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeTails,
	}
	flags := c.Flags()
	flags.StringVar(&from, "from", "end", "`place` to start from: beginning, end, a time, a span such as 15m, or a position")
	flags.StringVar(&match, "match", "", "only these: `TYPE[/GROUP]`")
	flags.IntVarP(&limit, "limit", "n", 0, "end after this many rows; 0: run until Ctrl-C")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		opts, err := tailOptions(from, match, limit)
		if err != nil {
			return err
		}
		cfg, err := a.loadState()
		if err != nil {
			return err
		}
		show := a.showRow
		if out.json() {
			show = a.showRowJSON
		}
		if !out.json() {
			opts.Begun = func() {
				fmt.Fprintf(a.err, "following %s from %s; Ctrl-C ends it\n", plain(args[0]), opts.From)
			}
		}
		return untilSignal(c.Context(), func(string) {}, func(ctx context.Context) error {
			return console.Tail(ctx, cfg, args[0], opts, show, outrider.WithLogger(a.logger(cfg, "warn")))
		})
	}
	return c
}

func tailOptions(from, match string, limit int) (console.TailOptions, error) {
	opts := console.TailOptions{Max: limit}
	var err error
	if opts.From, err = operate.ParseTarget(from, time.Now()); err != nil {
		return opts, wrong("--from %w", err)
	}
	if limit < 0 {
		return opts, wrong("--limit must not be negative")
	}
	opts.Types, opts.Group, _ = strings.Cut(match, "/")
	if _, err := config.ParseGlob(opts.Types); opts.Types != "" && err != nil {
		return opts, wrong("--match %w", err)
	}
	return opts, nil
}

// showRow prints a row on one line.
func (a *app) showRow(row *adapters.Row) error {
	at := "-"
	if !row.CreatedAt.IsZero() {
		at = row.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	body := string(row.Payload)
	if row.Binary {
		body = strconv.Quote(body)
	}
	if row.Err != nil {
		body = "cannot be decoded: " + row.Err.Error()
	}
	_, err := fmt.Fprintf(a.out, "%s  %d  %s  %s  %s  %s\n", at, row.Position, plain(row.ID), plain(row.Type), plain(row.Group), a.cut(plain(body), 200))
	return err
}

func (a *app) showRowJSON(row *adapters.Row) error {
	t := tailedRow{Position: row.Position, Slot: row.Slot, ID: row.ID, Type: row.Type, Group: row.Group,
		AggregateType: row.AggregateType, AggregateID: row.AggregateID, Tenant: row.Tenant, Tags: row.Tags,
		Headers: row.Headers, Late: row.Late}
	if !row.CreatedAt.IsZero() {
		t.CreatedAt = &row.CreatedAt
	}
	switch {
	case row.Err != nil:
		t.Error = row.Err.Error()
	case json.Valid(row.Payload):
		t.Payload = row.Payload
	default:
		t.PayloadBytes = row.Payload
	}
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(t)
}
