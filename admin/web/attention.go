package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
)

// failureLine is a group of failures and the query that finds its messages.
type failureLine struct {
	operate.Failure
	Find link
}

type failuresData struct {
	Route  string
	Routes []string
	Lines  []failureLine
	Most   int
	More   bool // some messages were not read
	Total  int  // lines that there are
}

// failuresMost is how many groups of failures a page shows.
const failuresMost = 100

func (s *pages) failures(r *http.Request) (*page, error) {
	ctx := r.Context()
	d := failuresData{Route: r.URL.Query().Get("route")}
	_, d.Routes = s.parkedCounts(r, "")
	err := s.console.Search(ctx, func(ctx context.Context, op *operate.Operator) error {
		found, more, err := op.Failures(ctx, d.Route)
		d.More, d.Total = more, len(found)
		for _, f := range found[:min(len(found), failuresMost)] {
			d.Most = max(d.Most, f.Count)
			d.Lines = append(d.Lines, failureLine{f, query("route", f.Route, "failure", f.Fingerprint)})
		}
		return err
	})
	return &page{Name: "failures", Title: "Failures", Data: d}, err
}

// blockedGroup is a message that its group waits behind.
type blockedGroup struct {
	operate.ParkedMessage
	Key           string
	Followers     int
	MoreFollowers bool
	Confirms      map[string]link
	Group         string
}

type groupsData struct {
	Route          string
	Routes         []string
	Held, Retrying []blockedGroup
	Waiting        []blockedGroup // whose first message waits: for its address
	More           bool
	Paused         []pausedGroup
}

// pausedGroup is a group that an operator paused.
type pausedGroup struct {
	Route string
	status.Stop
}

const (
	groupsMost    = 25  // heads of each status that a page shows
	followersMost = 200 // where counting the followers of one stops
)

func (s *pages) groups(r *http.Request) (*page, error) {
	ctx := r.Context()
	d := groupsData{Route: r.URL.Query().Get("route")}
	_, d.Routes = s.parkedCounts(r, "")
	snap := s.console.Status(ctx)
	for i := range snap.Routes {
		for _, stop := range snap.Routes[i].Groups {
			if name := snap.Routes[i].Route; (d.Route == "" || d.Route == name) && len(d.Paused) < groupsMost {
				d.Paused = append(d.Paused, pausedGroup{name, stop})
			}
		}
	}
	var err error
	if d.Held, err = s.blocked(ctx, &d, adapters.ParkedHeld); err == nil {
		d.Retrying, err = s.blocked(ctx, &d, adapters.ParkedRetrying)
	}
	if err == nil {
		d.Waiting, err = s.waiting(ctx, &d)
	}
	return &page{Name: "groups", Title: "Blocked groups", Data: d}, err
}

// blocked are the groups whose first message has a status.
func (s *pages) blocked(ctx context.Context, d *groupsData, status adapters.ParkedStatus) (groups []blockedGroup, err error) {
	heads, err := s.console.ParkedAfter(ctx, adapters.ParkedFilter{Route: d.Route, Status: status, Limit: groupsMost + 1}, operate.PageToken{})
	if err != nil {
		return nil, err
	}
	if len(heads) > groupsMost {
		heads, d.More = heads[:groupsMost], true
	}
	err = s.console.Use(ctx, func(op *operate.Operator) error {
		for i := range heads {
			g, err := blockedBy(ctx, op, &heads[i])
			if err != nil {
				return err
			}
			groups = append(groups, g)
		}
		return nil
	})
	return groups, err
}

// waitingMost is among how many messages the groups are looked for that wait for an address.
const waitingMost = 500

// waiting are the groups whose first message waits although none of the group has failed: its address is not in use.
func (s *pages) waiting(ctx context.Context, d *groupsData) (groups []blockedGroup, err error) {
	found, err := s.console.ParkedAfter(ctx, adapters.ParkedFilter{Route: d.Route, Status: adapters.ParkedWaiting, Limit: waitingMost}, operate.PageToken{})
	if err != nil || d.More { // with more heads than are shown it is not known which groups wait behind one
		return nil, err
	}
	seen := map[[2]string]bool{}
	for _, head := range slices.Concat(d.Held, d.Retrying) {
		seen[[2]string{head.Route, head.Group}] = head.Group != ""
	}
	d.More = len(found) == waitingMost
	err = s.console.Use(ctx, func(op *operate.Operator) error {
		for i := range found {
			group := [2]string{found[i].Route, found[i].Group}
			if seen[group] {
				continue
			}
			if d.More = d.More || len(groups) == groupsMost; len(groups) == groupsMost {
				break
			}
			seen[group] = found[i].Group != ""
			g, err := blockedBy(ctx, op, &found[i])
			if err != nil {
				return err
			}
			g.Followers = max(0, g.Followers-1) // one is the message itself
			groups = append(groups, g)
		}
		return nil
	})
	return groups, err
}

// blockedBy is the group that a message blocks, with how many wait behind it.
func blockedBy(ctx context.Context, op *operate.Operator, head *operate.ParkedMessage) (blockedGroup, error) {
	g := blockedGroup{ParkedMessage: *head, Key: keyOf(head), Group: head.Group, Confirms: describe(head, false).Confirms}
	if g.Group == "" {
		return g, nil
	}
	waiting, err := op.Parked(ctx, adapters.ParkedFilter{Route: g.Route, Group: g.Group, Status: adapters.ParkedWaiting, Limit: followersMost + 1})
	g.Followers, g.MoreFollowers = min(len(waiting), followersMost), len(waiting) > followersMost
	return g, err
}

// placeLine is a place of an event, and the page of its message.
type placeLine struct {
	operate.EventPlace
	Message link
}

type eventData struct {
	ID      string
	Journey *operate.Journey
	Places  []placeLine
}

func (s *pages) event(r *http.Request) (*page, error) {
	d := eventData{ID: r.URL.Query().Get("id")}
	var err error
	if d.ID != "" {
		if d.Journey, err = s.console.Journey(r.Context(), d.ID); err != nil {
			return nil, err
		}
		for _, p := range d.Journey.Places {
			line := placeLine{EventPlace: p}
			if place, err := operate.ParsePageToken(p.Key); err == nil && p.Key != "" {
				key := place.Parked
				line.Message = "/parked/" + pathOf(key.Route) + link("/"+strconv.Itoa(key.Slot)+"/"+strconv.FormatInt(key.Seq, 10))
			}
			d.Places = append(d.Places, line)
		}
	}
	return &page{Name: "event", Title: "Find an event", Data: d}, nil
}
