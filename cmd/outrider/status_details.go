package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/outriderhq/outrider"
)

// stop is a route or an address that does nothing, and why.
type stop struct {
	Address string    `json:"address,omitempty"`
	Since   time.Time `json:"since"`
	By      string    `json:"by,omitempty"`     // who paused it
	Reason  string    `json:"reason,omitempty"` // or what failed
	Waiting int       `json:"waiting,omitempty"`
	Durable bool      `json:"until_resumed"` // otherwise it is probed
}

// marked is how many rows of a queue are marked as being processed, by whomever.
type marked struct {
	Rows    int     `json:"rows"`
	More    bool    `json:"more,omitempty"`
	Longest float64 `json:"longest_seconds"`
}

// addDetails adds to routes what is paused, how far they are behind and, when a
// relay answers on the admin address, what it knows.
func (a *app) addDetails(ctx context.Context, cfg *outrider.Config, op *outrider.Operator, rows []progress) error {
	pauses, err := op.Pauses(ctx)
	if err != nil {
		return err
	}
	running := runningRoutes(ctx, cfg)
	for i := range rows {
		r := &rows[i]
		for _, p := range pauses {
			if p.Route != r.Route {
				continue
			}
			s := stop{Address: outrider.ShownAddress(p.Address), Since: p.At, By: p.By, Reason: p.Reason, Durable: true}
			if p.Address == "" {
				r.Paused = &s
			} else {
				r.Down = append(r.Down, s)
			}
		}
		r.addRunning(running[r.Route])
		if r.Lanes == 0 {
			continue
		}
		// What cannot be told is left out: a source that is down, or one
		// that cannot count, is no reason to show nothing.
		if n, err := op.Processing(ctx, r.Route); err == nil {
			r.Processing = &marked{Rows: n.Rows, More: n.More, Longest: n.Longest.Seconds()}
		}
		lag, err := op.Lag(ctx, r.Route)
		if err != nil {
			continue
		}
		r.Behind, r.BehindMore = &lag.Rows, lag.More
		if !lag.Oldest.IsZero() {
			r.Oldest = &lag.Oldest
		}
	}
	return nil
}

// runningRoute is what a running relay tells of a route.
type runningRoute struct {
	Route   string `json:"route"`
	Stopped string `json:"stopped"`
	Down    []struct {
		Address string    `json:"address"`
		Gone    bool      `json:"gone"`
		Since   time.Time `json:"since"`
		Cause   string    `json:"cause"`
		Waiting int       `json:"waiting"`
	} `json:"down"`
}

func (p *progress) addRunning(r runningRoute) {
	p.Stopped = r.Stopped
	for _, d := range r.Down {
		known := false
		for i := range p.Down {
			if p.Down[i].Address == d.Address {
				known, p.Down[i].Waiting = true, d.Waiting
			}
		}
		if !known {
			p.Down = append(p.Down, stop{Address: d.Address, Since: d.Since, Reason: d.Cause, Waiting: d.Waiting, Durable: d.Gone})
		}
	}
}

// runningRoutes asks the relay on the configured admin address, by route; it
// knows nothing when none answers.
func runningRoutes(ctx context.Context, cfg *outrider.Config) map[string]runningRoute {
	if !cfg.Admin.Enabled() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	out, err := askRoutes(ctx, cfg)
	if err != nil {
		return nil
	}
	return out
}

func askRoutes(ctx context.Context, cfg *outrider.Config) (map[string]runningRoute, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cfg.Admin.Listen+"/routes", http.NoBody)
	if err != nil {
		return nil, err
	}
	if len(cfg.Admin.Tokens) > 0 {
		req.Header.Set("Authorization", "Bearer "+cfg.Admin.Tokens[0].Reveal())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Routes []runningRoute `json:"routes"`
	}
	if resp.StatusCode == http.StatusOK {
		err = json.NewDecoder(resp.Body).Decode(&answer)
	}
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	out := map[string]runningRoute{}
	for _, r := range answer.Routes {
		out[r.Route] = r
	}
	return out, nil
}

// behind is how far a route is behind, for people.
func (p *progress) behind() string {
	if p.Behind == nil {
		return ""
	}
	text := strconv.Itoa(*p.Behind)
	if p.BehindMore {
		text = ">" + text
	}
	if p.Oldest != nil && *p.Behind > 0 {
		text += " (" + ago(*p.Oldest) + ")"
	}
	return text
}

// printStops tells what does nothing, below the table.
func (a *app) printStops(rows []progress) {
	for _, r := range rows {
		if r.Processing != nil && r.Processing.Rows > 0 {
			fmt.Fprintf(a.out, "\nroute %s: %s\n", r.Route, r.Processing)
		}
		if r.Paused != nil {
			fmt.Fprintf(a.out, "\nroute %s is paused%s\n  to go on: outrider resume %s\n", r.Route, r.Paused.why(), r.Route)
		}
		if r.Stopped != "" {
			fmt.Fprintf(a.out, "\nroute %s cannot run: %s\n", r.Route, plain(r.Stopped))
		}
		for _, d := range r.Down {
			fmt.Fprintf(a.out, "\nroute %s, address %s is not used%s\n", r.Route, plain(d.Address), d.why())
			if d.Durable {
				fmt.Fprintf(a.out, "  to go on: outrider resume %s --address %s\n", r.Route, strconv.Quote(d.Address))
			} else {
				fmt.Fprintln(a.out, "  it is probed, and used again when it answers")
			}
		}
	}
}

// String tells it to people.
func (m *marked) String() string {
	text, verb := counted(m.Rows, "row"), "are"
	if m.More {
		text = "more than " + text
	} else if m.Rows == 1 {
		verb = "is"
	}
	longest := (time.Duration(m.Longest) * time.Second).String()
	return text + " of its source " + verb + " marked as being processed, for " + longest + " at most; what a crash left so is put back after claims.timeout"
}

func (s *stop) why() string {
	text := " since " + s.Since.UTC().Format(time.RFC3339)
	if s.By != "" {
		text += " by " + plain(s.By)
	}
	if s.Waiting > 0 {
		text += ", " + counted(s.Waiting, "message") + " waiting in memory"
	}
	if s.Reason != "" {
		text += ": " + plain(s.Reason)
	}
	return text
}
