package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/admin/status"
)

// pathOf is a name as a part of a path.
func pathOf(name string) link { return link(url.PathEscape(name)) }

// routeData is a route with its lanes.
type routeData struct {
	routeLine
	Delivered int64
	Lanes     []status.RouteStatus
	Owned     []status.Owned
	Minutes   []minute
	Match     string
}

// minute has a route's numbers of a minute, for readers who do not see the charts.
type minute struct {
	At                                        time.Time
	Delivered, Retried, Dead, Parked, Skipped int
	P50, P95, P99                             time.Duration
}

func (s *pages) route(r *http.Request) (*page, error) {
	name := r.PathValue("route")
	snap := s.console.Status(r.Context())
	i := slices.IndexFunc(snap.Routes, func(p status.RouteStatus) bool { return p.Route == name })
	if i < 0 {
		return nil, server.Failed(http.StatusNotFound, "there is no route %q", name)
	}
	d := routeData{routeLine: s.line(snap, &snap.Routes[i], s.ways()), Delivered: snap.Stats[name].Delivered, Owned: snap.Routes[i].Owned}
	for _, l := range snap.Lanes {
		if l.Route == name {
			d.Lanes = append(d.Lanes, status.EachLane([]adapters.LaneStatus{l})...)
		}
	}
	slices.SortFunc(d.Lanes, func(a, b status.RouteStatus) int { return deref(a.Slot) - deref(b.Slot) })
	d.Minutes = s.minutes(name)
	return &page{Name: "route", Title: "Route " + name, Data: d}, nil
}

// minutesMost is how many minutes are shown as numbers.
const minutesMost = 15

// minutes sums the latest points of a route.
func (s *pages) minutes(route string) (out []minute) {
	points, latest := s.console.History().Route(route)
	for len(points) > 0 && len(out) < minutesMost {
		from := max(0, len(points)-perMinute)
		m := minute{At: latest}
		for _, p := range points[from:] {
			m.Delivered += int(p.Delivered)
			m.Retried += int(p.Retried)
			m.Dead += int(p.Dead)
			m.Parked += int(p.Parked)
			m.Skipped += int(p.Skipped)
			m.P50, m.P95, m.P99 = max(m.P50, seconds(p.P50)), max(m.P95, seconds(p.P95)), max(m.P99, seconds(p.P99))
		}
		out = append(out, m)
		points, latest = points[:from], latest.Add(-time.Duration(len(points)-from)*console.HistoryStep)
	}
	return out
}

func seconds(f float32) time.Duration { return time.Duration(float64(f) * float64(time.Second)) }

// chart is the history of a route, for the script.
type chart struct {
	At        []int64    `json:"at"` // Unix seconds
	Rate      []*float64 `json:"rate"`
	InFlight  []*float64 `json:"in_flight"`
	P50       []*float64 `json:"p50"`
	P95       []*float64 `json:"p95"`
	P99       []*float64 `json:"p99"`
	Retried   []*float64 `json:"retried"`
	Dead      []*float64 `json:"dead"`
	Parked    []*float64 `json:"parked"`
	Skipped   []*float64 `json:"skipped"`
	StepInSec float64    `json:"step"`
}

// data answers with the points of a route's charts since the process began, with nulls before the route did.
func (s *pages) data(w http.ResponseWriter, r *http.Request) {
	points, latest := s.console.History().Route(r.PathValue("route"))
	if latest.IsZero() {
		latest = time.Now()
	}
	c := chart{StepInSec: console.HistoryStep.Seconds()}
	for back := max(s.console.History().Len(), 1) - 1; back >= 0; back-- {
		c.At = append(c.At, latest.Add(-time.Duration(back)*console.HistoryStep).Unix())
		var p console.Point
		if at := len(points) - 1 - back; at >= 0 {
			p = points[at]
		}
		value := func(f float64, known bool) *float64 {
			if !known {
				return nil
			}
			return &f
		}
		number := func(n uint32) *float64 { return value(float64(n), p.Known) }
		age := func(f float32) *float64 { return value(float64(f), f > 0) }
		c.Rate = append(c.Rate, value(float64(p.Delivered)/c.StepInSec, p.Known))
		c.InFlight = append(c.InFlight, number(p.InFlight))
		c.P50, c.P95, c.P99 = append(c.P50, age(p.P50)), append(c.P95, age(p.P95)), append(c.P99, age(p.P99))
		c.Retried, c.Dead = append(c.Retried, number(p.Retried)), append(c.Dead, number(p.Dead))
		c.Parked, c.Skipped = append(c.Parked, number(p.Parked)), append(c.Skipped, number(p.Skipped))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c) // the browser may have gone
}
