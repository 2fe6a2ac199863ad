package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin"
)

// failureLine is a group of failures and the query that finds its messages.
type failureLine struct {
	admin.Failure
	Find link
}

type failuresData struct {
	Route  string
	Routes []string
	Lines  []failureLine
	Most   int
	More   bool // some messages were not looked at
	Total  int  // lines that there are
}

// failuresMost is how many groups of failures a page shows.
const failuresMost = 100

func (s *server) failures(r *http.Request) (*page, error) {
	ctx := r.Context()
	d := failuresData{Route: r.URL.Query().Get("route")}
	_, d.Routes = s.parkedCounts(r, "")
	err := s.console.Use(ctx, func(op *admin.Operator) error {
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
	admin.ParkedMessage
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
	More           bool
	Paused         []pausedGroup
}

// pausedGroup is a group that an operator paused.
type pausedGroup struct {
	Route string
	admin.Stop
}

const (
	groupsMost    = 25  // heads of each status that a page shows
	followersMost = 200 // where counting the followers of one stops
)

func (s *server) groups(r *http.Request) (*page, error) {
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
	err := s.console.Use(ctx, func(op *admin.Operator) error {
		for _, of := range []struct {
			status adapters.ParkedStatus
			into   *[]blockedGroup
		}{{adapters.ParkedHeld, &d.Held}, {adapters.ParkedRetrying, &d.Retrying}} {
			heads, err := headsOf(ctx, op, snap, d.Route, of.status)
			if err != nil {
				return err
			}
			if len(heads) > groupsMost {
				heads, d.More = heads[:groupsMost], true
			}
			for i := range heads {
				g, err := blockedBy(ctx, op, &heads[i])
				if err != nil {
					return err
				}
				*of.into = append(*of.into, g)
			}
		}
		return nil
	})
	return &page{Name: "groups", Title: "Blocked groups", Data: d}, err
}

// headsDirectly is up to how many parked messages the heads of all routes are read at once: a status that is rare among more is
// looked for only in the routes that have it.
const headsDirectly = 10_000

// headsOf are the first messages with a status of a route; empty: of all.
func headsOf(ctx context.Context, op *admin.Operator, snap *admin.Snapshot, route string, status adapters.ParkedStatus) (heads []admin.ParkedMessage, err error) {
	routes, total := []string{}, 0
	for i := range snap.Routes {
		r := &snap.Routes[i]
		total += r.Held + r.Retrying + r.Waiting
		if status == adapters.ParkedHeld && r.Held > 0 || status == adapters.ParkedRetrying && r.Retrying > 0 {
			routes = append(routes, r.Route)
		}
	}
	if slices.Sort(routes); route != "" || total <= headsDirectly {
		routes = []string{route}
	}
	for _, name := range routes {
		if len(heads) > groupsMost {
			break
		}
		found, err := op.Parked(ctx, adapters.ParkedFilter{Route: name, Status: status, Limit: groupsMost + 1 - len(heads)})
		if err != nil {
			return nil, err
		}
		heads = append(heads, found...)
	}
	return heads, nil
}

// blockedBy is the group that a message blocks, with how many wait behind it.
func blockedBy(ctx context.Context, op *admin.Operator, head *admin.ParkedMessage) (blockedGroup, error) {
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
	admin.EventPlace
	Message link
}

type eventData struct {
	ID      string
	Journey *admin.Journey
	Places  []placeLine
}

func (s *server) event(r *http.Request) (*page, error) {
	d := eventData{ID: r.URL.Query().Get("id")}
	var err error
	if d.ID != "" {
		if d.Journey, err = s.console.Journey(r.Context(), d.ID); err != nil {
			return nil, err
		}
		for _, p := range d.Journey.Places {
			line := placeLine{EventPlace: p}
			if place, err := admin.ParseParkedPlace(p.Key); err == nil && p.Key != "" {
				key := place.Parked
				line.Message = "/parked/" + pathOf(key.Route) + link("/"+strconv.Itoa(key.Slot)+"/"+strconv.FormatInt(key.Seq, 10))
			}
			d.Places = append(d.Places, line)
		}
	}
	return &page{Name: "event", Title: "Find an event", Data: d}, nil
}
