package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/admin/status"
)

// RouteView is a route with its cause.
type RouteView struct {
	status.RouteStatus
	Cause      status.Cause `json:"cause"`
	LagSeconds *float64     `json:"lag_seconds,omitempty" doc:"Age of the oldest row that is not settled. Absent: nothing waits, or not known."`
	InFlight   int          `json:"in_flight" doc:"Messages that this instance has read and not settled."`
	Delivered  int64        `json:"delivered" doc:"Messages that this instance has delivered since it began."`
	Rate       *float64     `json:"rate,omitempty" doc:"Messages a second that this instance delivers. Absent: not known yet."`
}

// Page has the parameters of lists.
type Page struct {
	After string `query:"after" doc:"next of the page before." maxLength:"2000"`
	Limit int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

// list is a page.
type list[T any] struct {
	Body struct {
		Items []T    `json:"items" nullable:"false"`
		Next  string `json:"next,omitempty" doc:"after of the next page; absent on the last one."`
	}
}

// cut makes a page of sorted items, beginning behind a key.
func cut[T any](items []T, p Page, key func(T) string, compare func(a, b string) int) *list[T] {
	if p.After != "" {
		at, found := slices.BinarySearchFunc(items, p.After, func(item T, after string) int { return compare(key(item), after) })
		if found {
			at++
		}
		items = items[at:]
	}
	out := &list[T]{}
	out.Body.Items = append([]T{}, items[:min(len(items), p.Limit)]...)
	if len(items) > p.Limit {
		out.Body.Next = key(items[p.Limit-1])
	}
	return out
}

type routesIn struct {
	Page
	State string `query:"state" enum:"stopped,no-relay,failing,unavailable,held,retrying,behind,paused,group-paused,dead,standby,ok" doc:"Only routes in this state."`
}

type one[T any] struct{ Body T }

// RouteIn names a route.
type RouteIn struct {
	Route string `path:"route" maxLength:"200"`
}

func (s *service) addState() {
	add(s, get("/routes", "list-routes", "Routes by name, each with the one cause that keeps it from delivering"), s.routes)
	add(s, get("/routes/{route}", "get-route", "One route"), s.route)
	add(s, get("/sources", "list-sources", "Sources"), s.sources)
	add(s, get("/destinations", "list-destinations", "Destinations with their addresses that are not used now"), s.destinations)
	add(s, get("/lanes", "list-lanes", "Lanes with their owners, by route and slot"), s.lanes)
	add(s, get("/instances", "list-instances", "Instances"), s.instances)
	add(s, get("/config", "get-config", "The configuration at work, its secrets masked"), s.config)
	add(s, get("/audit", "list-audit", "Audit records, the newest first"), s.audit)
}

func view(snap *console.Snapshot, r *status.RouteStatus) RouteView {
	v := RouteView{RouteStatus: *r, Cause: snap.CauseOf(r)}
	if r.Oldest != nil && r.Behind != nil && *r.Behind > 0 {
		lag := time.Since(*r.Oldest).Seconds()
		v.LagSeconds = &lag
	}
	if rate, ok := snap.Rates[r.Route]; ok {
		v.Rate = &rate
	}
	stats := snap.Stats[r.Route]
	v.InFlight, v.Delivered = stats.InFlight, stats.Delivered
	return v
}

func (s *service) routes(ctx context.Context, in *routesIn) (*list[RouteView], error) {
	snap := s.console.Status(ctx)
	views := []RouteView{}
	for i := range snap.Routes {
		if in.State == "" || string(snap.Routes[i].State) == in.State {
			views = append(views, view(snap, &snap.Routes[i]))
		}
	}
	slices.SortFunc(views, func(a, b RouteView) int { return cmp.Compare(a.Route, b.Route) })
	return cut(views, in.Page, func(v RouteView) string { return v.Route }, strings.Compare), nil
}

func (s *service) route(ctx context.Context, in *RouteIn) (*one[RouteView], error) {
	snap := s.console.Status(ctx)
	for i := range snap.Routes {
		if snap.Routes[i].Route == in.Route {
			return &one[RouteView]{view(snap, &snap.Routes[i])}, nil
		}
	}
	return nil, server.Failed(http.StatusNotFound, "there is no route %q", in.Route)
}

// SourceView is a source.
type SourceView struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Routes []string `json:"routes" nullable:"false"`
	Error  string   `json:"error,omitempty" doc:"Why it cannot be read."`
}

func (s *service) sources(ctx context.Context, in *Page) (*list[SourceView], error) {
	cfg, snap := s.console.Config(), s.console.Status(ctx)
	failed := map[string]string{}
	for i := range snap.Routes {
		failed[snap.Routes[i].Route] = snap.Routes[i].SourceError
	}
	views := []SourceView{}
	for name, source := range cfg.Sources {
		v := SourceView{Name: name, Type: source.Kind(), Routes: []string{}}
		for _, r := range cfg.Routes {
			if r.From == name {
				v.Routes = append(v.Routes, r.Name)
				v.Error = cmp.Or(v.Error, failed[r.Name])
			}
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b SourceView) int { return cmp.Compare(a.Name, b.Name) })
	return cut(views, *in, func(v SourceView) string { return v.Name }, strings.Compare), nil
}

// DestinationView is a destination.
type DestinationView struct {
	Name      string        `json:"name"`
	Type      string        `json:"type"`
	Routes    []string      `json:"routes" nullable:"false"`
	Dead      []string      `json:"dead_messages_of" nullable:"false" doc:"Routes that send copies of their dead messages to it (poison: {to: ...})."`
	Addresses []AddressView `json:"addresses" nullable:"false" doc:"Addresses of its routes that are paused or down. A route with several destinations has them at each."`
}

// AddressView is an address that is not used now.
type AddressView struct {
	Route string `json:"route"`
	status.Stop
}

func (s *service) destinations(ctx context.Context, in *Page) (*list[DestinationView], error) {
	cfg, snap := s.console.Config(), s.console.Status(ctx)
	down := map[string][]status.Stop{}
	for i := range snap.Routes {
		down[snap.Routes[i].Route] = snap.Routes[i].Down
	}
	views := []DestinationView{}
	for name, d := range cfg.Destinations {
		v := DestinationView{Name: name, Type: d.Kind(), Routes: []string{}, Dead: []string{}, Addresses: []AddressView{}}
		for _, r := range cfg.Routes {
			if r.DeadTo() == name {
				v.Dead = append(v.Dead, r.Name)
			}
			if !slices.Contains(r.Targets, name) {
				continue
			}
			v.Routes = append(v.Routes, r.Name)
			for _, stop := range down[r.Name] {
				v.Addresses = append(v.Addresses, AddressView{r.Name, stop})
			}
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b DestinationView) int { return cmp.Compare(a.Name, b.Name) })
	return cut(views, *in, func(v DestinationView) string { return v.Name }, strings.Compare), nil
}

type lanesIn struct {
	Page
	Route string `query:"route" maxLength:"200" doc:"Only lanes of this route."`
}

// compareLanes compares the keys of lanes, route/slot with two digits, as the lanes are sorted: a route a before a route a-b.
func compareLanes(a, b string) int {
	i, j := strings.LastIndexByte(a, '/'), strings.LastIndexByte(b, '/')
	return cmp.Or(strings.Compare(a[:max(i, 0)], b[:max(j, 0)]), strings.Compare(a[i+1:], b[j+1:]))
}

func cutLanes(lanes []adapters.LaneStatus, p Page) *list[adapters.LaneStatus] {
	key := func(l adapters.LaneStatus) string { return fmt.Sprintf("%s/%02d", l.Route, l.Slot) }
	return cut(lanes, p, key, compareLanes)
}

func (s *service) lanes(ctx context.Context, in *lanesIn) (*list[status.RouteStatus], error) {
	snap := s.console.Status(ctx)
	if snap.Problem != nil {
		return nil, snap.Problem
	}
	lanes := snap.Lanes
	if in.Route != "" {
		lanes = slices.DeleteFunc(slices.Clone(lanes), func(l adapters.LaneStatus) bool { return l.Route != in.Route })
	}
	page := cutLanes(lanes, in.Page)
	out := &list[status.RouteStatus]{}
	out.Body.Items, out.Body.Next = status.EachLane(page.Body.Items), page.Body.Next
	return out, nil
}

func (s *service) instances(ctx context.Context, in *Page) (*list[status.Member], error) {
	snap := s.console.Status(ctx)
	if snap.Problem != nil {
		return nil, snap.Problem
	}
	members := slices.Clone(snap.Instances)
	slices.SortFunc(members, func(a, b status.Member) int { return cmp.Compare(a.ID, b.ID) })
	return cut(members, *in, func(m status.Member) string { return m.ID }, strings.Compare), nil
}

// ConfigView is the active configuration.
type ConfigView struct {
	YAML string `json:"yaml" doc:"In the form of the file, with defaults; secrets are ***."`
}

func (s *service) config(context.Context, *struct{}) (*one[ConfigView], error) {
	return &one[ConfigView]{ConfigView{s.console.Config().Redacted()}}, nil
}

// AuditView is an audit record.
type AuditView struct {
	ID      int64             `json:"id"`
	At      time.Time         `json:"at"`
	By      string            `json:"by" doc:"Name given by the caller, and its token."`
	Role    string            `json:"role,omitempty" doc:"Database role."`
	Action  string            `json:"action"`
	Filter  map[string]string `json:"filter" nullable:"false" doc:"What it was about."`
	Changed int               `json:"changed"`
}

type auditIn struct {
	Before string `query:"before" pattern:"^[0-9]+([.][0-9]+)*$" maxLength:"2000" doc:"next of the page before."`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

type auditOut struct {
	Body struct {
		Items []AuditView `json:"items" nullable:"false"`
		Next  string      `json:"next,omitempty" doc:"before of the next page; absent on the last one."`
	}
}

func (s *service) audit(ctx context.Context, in *auditIn) (*auditOut, error) {
	out := &auditOut{}
	out.Body.Items = []AuditView{}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		records, next, err := op.Audit(ctx, in.Before, in.Limit)
		for _, r := range records {
			v := AuditView{ID: r.ID, At: r.At, By: r.By, Role: r.Role, Action: r.Action, Filter: map[string]string{}, Changed: r.Changed}
			if err := json.Unmarshal([]byte(r.Filter), &v.Filter); err != nil {
				v.Filter["unreadable"] = r.Filter // another program wrote it
			}
			out.Body.Items = append(out.Body.Items, v)
		}
		out.Body.Next = next
		return err
	})
}
