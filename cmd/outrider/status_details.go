package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin"
	"github.com/outriderhq/outrider/config"
)

// stop is a route or an address that does nothing, and why.
type stop struct {
	Address string    `json:"address,omitempty"`
	Since   time.Time `json:"since"`
	By      string    `json:"by,omitempty"`     // who paused it
	Reason  string    `json:"reason,omitempty"` // or what failed
	Waiting int       `json:"waiting,omitempty"`
	Durable bool      `json:"until_resumed"` // otherwise it is probed

	Probe *time.Time `json:"next_probe_at,omitempty"`
}

// marked is how many rows of a queue are marked as being processed, by whomever.
type marked struct {
	Rows    int     `json:"rows"`
	More    bool    `json:"more,omitempty"`
	Longest float64 `json:"longest_seconds"`
}

// addDetails adds to routes what is paused, how far they are behind and, when a
// relay answers on the admin address, what it knows.
func (a *app) addDetails(ctx context.Context, cfg *config.Config, op *admin.Operator, rows []progress, lanes []adapters.LaneStatus) error {
	pauses, err := op.Pauses(ctx)
	if err != nil {
		return err
	}
	running := runningRoutes(ctx, cfg)
	byRoute := map[string][]adapters.LaneStatus{}
	for _, l := range lanes {
		byRoute[l.Route] = append(byRoute[l.Route], l)
	}
	ctx, cancel := context.WithTimeout(ctx, lagPatience)
	defer cancel()
	asked := askedSources{op: op, from: map[string]string{}, processing: map[string]*marked{}, silent: map[string]bool{}, lags: map[string]adapters.Backlog{}}
	for _, r := range cfg.Routes {
		asked.from[r.Name] = r.From
	}
	// A source that is down is no reason to show nothing: its numbers are left out. Asked
	// first, without the checks of a relay, which an operator's role would not pass.
	dead, deadMore, _ := op.DeadRows(ctx)
	for i := range rows {
		r := &rows[i]
		r.DeadRows, r.DeadMore = dead[r.Route], deadMore[r.Route]
		r.Dead += r.DeadRows
		for _, p := range pauses {
			if p.Route != r.Route {
				continue
			}
			s := stop{Address: admin.ShownAddress(p.Address), Since: p.At, By: p.By, Reason: p.Reason, Durable: true}
			if p.Address == "" {
				r.Paused = &s
			} else {
				r.Down = append(r.Down, s)
			}
		}
		r.addRunning(running[r.Route])
		if r.Lanes > 0 {
			asked.add(ctx, r, byRoute[r.Route])
		}
	}
	return nil
}

// askedSources queries sources about their routes. A source that does not answer is
// asked once, and one that shares an answer between its routes likewise.
type askedSources struct {
	op         *admin.Operator
	from       map[string]string // source by route
	processing map[string]*marked
	silent     map[string]bool
	lags       map[string]adapters.Backlog // by source and the places of the lanes
}

// lagPatience bounds the time for counting what routes are behind, in all: of those
// that are left the numbers are left out.
const lagPatience = 10 * time.Second

// lag counts what a route is behind, once for all routes at one place: idle routes
// of one table are.
func (s *askedSources) lag(ctx context.Context, route string, lanes []adapters.LaneStatus) (adapters.Backlog, error) {
	var b strings.Builder
	b.WriteString(s.from[route])
	for _, l := range lanes {
		if !l.UpdatedAt.IsZero() {
			fmt.Fprintf(&b, " %d:%d", l.Slot, l.Cursor.Position)
		}
	}
	place := b.String()
	if known, ok := s.lags[place]; ok {
		return known, nil
	}
	lag, err := s.op.LagBehind(ctx, route, lanes)
	if err == nil {
		s.lags[place] = lag
	}
	return lag, err
}

// add adds how far a route is behind. A source that is down, or that cannot
// count, is no reason to show nothing: the numbers are left out.
func (s *askedSources) add(ctx context.Context, r *progress, lanes []adapters.LaneStatus) {
	from := s.from[r.Route]
	if s.silent[from] {
		return
	}
	if _, asked := s.processing[from]; !asked {
		s.processing[from] = nil
		if n, err := s.op.Processing(ctx, r.Route); err == nil {
			s.processing[from] = &marked{Rows: n.Rows, More: n.More, Longest: n.Longest.Seconds()}
		}
	}
	r.Processing = s.processing[from]
	lag, err := s.lag(ctx, r.Route, lanes)
	if err != nil {
		s.silent[from] = !errors.Is(err, admin.ErrNeverRan)
		return
	}
	r.Behind, r.BehindMore = &lag.Rows, lag.More
	if !lag.Oldest.IsZero() {
		r.Oldest = &lag.Oldest
	}
}

// runningRoute is what a running relay reports of a route.
type runningRoute struct {
	Route   string `json:"route"`
	Stopped string `json:"stopped"`
	Down    []struct {
		Address string    `json:"address"`
		Gone    bool      `json:"gone"`
		Since   time.Time `json:"since"`
		Cause   string    `json:"cause"`
		Waiting int       `json:"waiting"`

		Probe *time.Time `json:"next_probe_at"`
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
			p.Down = append(p.Down, stop{Address: d.Address, Since: d.Since, Reason: d.Cause, Waiting: d.Waiting, Durable: d.Gone, Probe: d.Probe})
		}
	}
}

// runningRoutes queries the relay on the configured admin address, by route; it
// knows nothing when none answers.
func runningRoutes(ctx context.Context, cfg *config.Config) map[string]runningRoute {
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

func askRoutes(ctx context.Context, cfg *config.Config) (map[string]runningRoute, error) {
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

// explainedRoutes is of how many routes the table is explained below it.
const explainedRoutes = 10

// printStops explains below the table why routes need attention, and what to do.
func (a *app) printStops(rows []progress) {
	if len(rows) > 0 && rows[0].noRelay {
		fmt.Fprintln(a.out, "\nno relay is running: start one with outrider run")
	}
	explained := 0
	for i := range rows {
		lines := rows[i].explanation()
		if len(lines) == 0 {
			continue
		}
		if explained++; explained > explainedRoutes {
			fmt.Fprintln(a.out, "\nmore routes need attention: outrider status ROUTE explains one")
			return
		}
		fmt.Fprintln(a.out)
		for _, l := range lines {
			fmt.Fprintln(a.out, plain(l))
		}
	}
}

// explanation is what there is to say of a route beside its numbers: each fact on
// a line, what to do about it on the next.
func (p *progress) explanation() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if p.Stopped != "" {
		add("route %s cannot run: %s", p.Route, p.Stopped)
	}
	if p.Paused != nil {
		add("route %s has been paused%s", p.Route, p.Paused.why())
		add("  to resume it: outrider resume %s", p.Route)
	}
	for _, d := range p.Down {
		if d.Durable {
			add("route %s: address %s has been paused%s", p.Route, d.Address, d.why())
			add("  to resume it: outrider resume %s --address %s", p.Route, strconv.Quote(d.Address))
			continue
		}
		add("route %s: address %s has been unavailable%s", p.Route, d.Address, d.why())
		add("  Outrider is probing it%s and resumes when it answers", d.nextProbe())
	}
	if f := p.Failing; f != nil {
		add("route %s: %s", p.Route, f.text(p))
		add("  to look closer: outrider parked list --route %s --status %s", p.Route, f.Status)
	}
	if p.Processing != nil && p.Processing.Rows > 0 {
		add("route %s: %s", p.Route, p.Processing)
	}
	return lines
}

// text says what fails, with the first message as the example.
func (f *failing) text(p *progress) string {
	n := map[adapters.ParkedStatus]int{adapters.ParkedHeld: p.Held, adapters.ParkedRetrying: p.Retrying, adapters.ParkedDead: p.Dead}[f.Status]
	text := fmt.Sprintf("%s %s; message %s", counted(n, "message"), f.Status, f.ID)
	if f.Group != "" {
		text += " of group " + f.Group
	}
	text += ", parked " + ago(f.Since) + " after " + counted(f.Attempts, "attempt")
	if f.Next != nil {
		if time.Until(*f.Next) > 0 {
			text += ", next attempt " + ago(*f.Next)
		} else {
			text += ", due now"
		}
	}
	return text + ": " + shorten(f.Error, 300)
}

// String describes it for people.
func (m *marked) String() string {
	text, verb := counted(m.Rows, "row"), "are"
	if m.More {
		text = "more than " + text
	} else if m.Rows == 1 {
		verb = "is"
	}
	longest := (time.Duration(m.Longest) * time.Second).String()
	return text + " of its source " + verb + " marked as being processed, for " + longest + " at most; rows that a crash left so go back after claims.timeout"
}

// nextProbe is when a probed address is tried again, if that is known.
func (s *stop) nextProbe() string {
	if s.Probe == nil || time.Until(*s.Probe) <= 0 {
		return ""
	}
	return " (next probe " + ago(*s.Probe) + ")"
}

func (s *stop) why() string {
	text := " since " + s.Since.UTC().Format(time.RFC3339)
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Waiting > 0 {
		text += ", " + counted(s.Waiting, "message") + " waiting in memory"
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}
