package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/outbox"
)

// progress is a row of status: a lane, or a route with the sum of its lanes.
type progress struct {
	Route     string     `json:"route"`
	Slot      *int       `json:"slot,omitempty"`
	Lanes     int        `json:"lanes,omitempty"`
	Owners    []string   `json:"owners"`
	Alive     bool       `json:"alive"`    // all owners are
	Position  int64      `json:"position"` // settled; of a route, that of its farthest lane
	Retrying  int        `json:"retrying"`
	Waiting   int        `json:"waiting"`
	Held      int        `json:"held"`
	Dead      int        `json:"dead"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`

	// Of lanes only.
	Epoch int64      `json:"epoch,omitempty"`
	Since *time.Time `json:"since,omitempty"` // when the owner took it

	// Of routes only.
	Owned      []owned    `json:"owned,omitempty"`
	Behind     *int       `json:"behind,omitempty"` // rows not settled; absent when not known
	BehindMore bool       `json:"behind_more,omitempty"`
	Oldest     *time.Time `json:"oldest,omitempty"` // creation of the first of them
	Paused     *stop      `json:"paused,omitempty"`
	Down       []stop     `json:"addresses_down,omitempty"`
	Processing *marked    `json:"processing,omitempty"` // of queues: rows that are marked so in the source
	Stopped    string     `json:"stopped,omitempty"`    // why the running instance cannot run it
}

func (a *app) statusCommand() *cobra.Command {
	var lanes bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show who works which route, how far it is and what is parked",
		Args:  noArgs,
	}
	out := outputFlag(c)
	c.Flags().BoolVar(&lanes, "lanes", false, "a row for each lane instead of each route")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return a.operate(c.Context(), func(cfg *outrider.Config, op *outrider.Operator) error {
			found, err := op.Lanes(c.Context())
			if err != nil {
				return err
			}
			instances, err := op.Instances(c.Context())
			if err != nil {
				return err
			}
			rows := each(found)
			if !lanes {
				rows = summarise(cfg, found)
				if err := a.addDetails(c.Context(), cfg, op, rows); err != nil {
					return err
				}
			}
			if out.json() {
				return a.printJSON(map[string]any{"status": rows, "instances": membersOf(instances, found)})
			}
			if err := a.printStatus(rows, lanes); err != nil || lanes {
				return err
			}
			if err := a.printOwners(rows, membersOf(instances, found)); err != nil {
				return err
			}
			a.printStops(rows)
			return nil
		})
	}
	return c
}

// operate opens the state for f.
func (a *app) operate(ctx context.Context, f func(*outrider.Config, *outrider.Operator) error) (err error) {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	op, err := outrider.NewOperator(ctx, cfg, outrider.WithLogger(a.logger(cfg, "warn")))
	if err != nil {
		return err
	}
	return errors.Join(explainMissing(f(cfg, op)), op.Close())
}

// explainMissing says what to do about state tables that are not there.
func explainMissing(err error) error {
	var state interface{ SQLState() string } // of PostgreSQL
	if errors.As(err, &state) && state.SQLState() == "42P01" ||
		err != nil && strings.Contains(err.Error(), "no such table: outrider_") {
		what, _, _ := strings.Cut(err.Error(), "; ") // behind it stands what a program would do
		return fmt.Errorf("%s: there is no state yet, `outrider init` or `outrider run` creates its tables", what)
	}
	return err
}

// each makes a row of each lane.
func each(lanes []outbox.LaneStatus) []progress {
	rows := []progress{}
	for _, l := range lanes {
		row := progress{Route: l.Route, Slot: &l.Slot, Owners: []string{}}
		row.Alive = true
		row.add(l)
		row.Lanes, row.Owned, row.Epoch = 0, nil, l.Epoch
		if !l.Since.IsZero() {
			row.Since = &l.Since
		}
		rows = append(rows, row)
	}
	return rows
}

// summarise makes a row of each route: those of the configuration, then others
// that the state remembers.
func summarise(cfg *outrider.Config, lanes []outbox.LaneStatus) []progress {
	rows := []progress{}
	index := map[string]int{}
	row := func(route string) *progress {
		i, ok := index[route]
		if !ok {
			i = len(rows)
			index[route] = i
			rows = append(rows, progress{Route: route, Owners: []string{}, Alive: true})
		}
		return &rows[i]
	}
	for _, r := range cfg.Routes {
		row(r.Name)
	}
	for _, l := range lanes {
		row(l.Route).add(l)
	}
	for i := range rows {
		rows[i].Alive = rows[i].Alive && len(rows[i].Owners) > 0
	}
	return rows
}

func (p *progress) add(l outbox.LaneStatus) {
	p.Lanes++
	if l.Owner != "" && !slices.Contains(p.Owners, l.Owner) {
		p.Owners = append(p.Owners, l.Owner)
	}
	p.own(l)
	p.Alive = p.Alive && l.Alive
	p.Position = max(p.Position, l.Cursor.Position)
	p.Retrying += l.Retrying
	p.Waiting += l.Waiting
	p.Held += l.Held
	p.Dead += l.Dead
	if !l.UpdatedAt.IsZero() && (p.UpdatedAt == nil || l.UpdatedAt.After(*p.UpdatedAt)) {
		p.UpdatedAt = &l.UpdatedAt
	}
}

func (a *app) printStatus(rows []progress, lanes bool) error {
	headings := []string{"ROUTE", "LANES", "OWNER", "HIGHEST", "BEHIND", "RETRYING", "WAITING", "HELD", "DEAD", "UPDATED"}
	if lanes {
		headings = append(slices.Delete(headings, 4, 5), "SINCE", "EPOCH")
		headings[1], headings[3] = "SLOT", "POSITION"
	}
	var cells [][]string
	for _, r := range rows {
		which := strconv.Itoa(r.Lanes)
		if r.Slot != nil {
			which = fmt.Sprintf("%02d", *r.Slot)
		}
		updated := ""
		if r.UpdatedAt != nil {
			updated = ago(*r.UpdatedAt)
		}
		row := []string{r.Route, which, r.owner(), strconv.FormatInt(r.Position, 10)}
		if !lanes {
			row = append(row, r.behind())
		}
		row = append(row, strconv.Itoa(r.Retrying), strconv.Itoa(r.Waiting), strconv.Itoa(r.Held), strconv.Itoa(r.Dead), updated)
		if lanes {
			row = append(row, since(r.Since), strconv.FormatInt(r.Epoch, 10))
		}
		cells = append(cells, row)
	}
	return a.printTable(headings, cells)
}

// owner says who works the row.
func (p *progress) owner() string {
	switch {
	case p.Paused != nil && len(p.Owners) == 0:
		return "(paused)"
	case p.Lanes == 0 && p.Slot == nil:
		return "(has never run)"
	case len(p.Owners) == 0:
		return "(nobody)"
	}
	who := p.Owners[0]
	if len(p.Owners) > 1 {
		who = counted(len(p.Owners), "instance")
	}
	if !p.Alive {
		who += " (not alive)"
	}
	return who
}
