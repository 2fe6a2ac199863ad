package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// parkedMost is how many messages a page shows.
const parkedMost = 50

// chip is a part of the filter that is set.
type chip struct {
	Name, Value string
	Without     link // query of the page without it
}

// parkedData is a page of parked messages.
type parkedData struct {
	Items    []operate.ParkedMessage
	Filter   url.Values // what is set
	Chips    []chip
	Statuses []stateCount
	Routes   []string
	Next     link
	First    bool
	Slow     time.Duration // the search was given up after this time
}

// searchMost is how long a page looks for messages: without a route, a rare type, group or error is looked for in all of them.
const searchMost = 3 * time.Second

// Set is the value of a part of the filter.
func (d parkedData) Set(name string) string { return d.Filter.Get(name) }

// With is the query with another value of one part.
func (d parkedData) With(name, value string) link {
	q := url.Values{}
	for n := range d.Filter {
		q.Set(n, d.Filter.Get(n))
	}
	q.Del(name)
	if value != "" {
		q.Set(name, value)
	}
	return link(q.Encode())
}

// Confirm is the query of the page that confirms an action for what the filter selects.
func (d parkedData) Confirm(name string) link { return d.With("action", name) }

// Can reports whether an action could change messages of the status that is set.
func (d parkedData) Can(action string) bool {
	f := adapters.ParkedFilter{Status: adapters.ParkedStatus(d.Filter.Get("status"))}
	return len(adapters.ParkedAction(action).Statuses(f)) > 0
}

func (s *pages) parked(r *http.Request) (*page, error) {
	ctx, q := r.Context(), r.URL.Query()
	f, set, err := action.Filter(q)
	if err != nil {
		return nil, err
	}
	f.Limit = parkedMost + 1
	after, err := operate.ParsePageToken(q.Get("after"))
	if err != nil {
		return nil, server.Failed(http.StatusUnprocessableEntity, "after: %v", err)
	}
	d := parkedData{Filter: url.Values{}, First: q.Get("after") == ""}
	for _, part := range set {
		d.Filter.Set(part[0], part[1])
	}
	search, cancel := context.WithTimeout(ctx, searchMost)
	defer cancel()
	d.Items, err = s.console.ParkedAfter(search, f, after)
	switch {
	case search.Err() != nil && ctx.Err() == nil:
		d.Slow, d.Items = searchMost, nil
	case err != nil:
		return nil, err
	}
	if len(d.Items) > parkedMost {
		d.Items = d.Items[:parkedMost]
		d.Next = d.With("after", d.Items[parkedMost-1].At.String())
	}
	for _, part := range set {
		d.Chips = append(d.Chips, chip{part[0], part[1], d.With(part[0], "")})
	}
	d.Statuses, d.Routes = s.parkedCounts(r, f.Route)
	return &page{Name: "parked", Title: "Parked messages", Data: d}, nil
}

// parkedCounts are the counts that the state keeps of a route (empty: of all), by status,
// and the names of routes.
func (s *pages) parkedCounts(r *http.Request, route string) (out []stateCount, routes []string) {
	counts := map[adapters.ParkedStatus]int{}
	snap := s.console.Status(r.Context())
	for i := range snap.Routes {
		p := &snap.Routes[i]
		routes = append(routes, p.Route)
		if route == "" || route == p.Route {
			counts[adapters.ParkedHeld] += p.Held
			counts[adapters.ParkedDead] += p.Dead
			counts[adapters.ParkedRetrying] += p.Retrying
			counts[adapters.ParkedWaiting] += p.Waiting
		}
	}
	for _, status := range action.Statuses {
		out = append(out, stateCount{string(status), counts[status]})
	}
	slices.Sort(routes)
	return out, routes
}

// keyOf names a parked message in links.
func keyOf(p *operate.ParkedMessage) string {
	return p.Route + "/" + strconv.Itoa(p.Slot) + "/" + strconv.FormatInt(p.Seq, 10)
}

// messageData is one parked message.
type messageData struct {
	*operate.ParkedMessage
	Key       string
	Shown     bool // the values of payload and metadata are
	Text      string
	Binary    bool
	Meta      [][2]string
	Size      int
	Confirms  map[string]link // query of the page that confirms an action, by action
	Followers link            // query of the list of its group
}

func (s *pages) message(r *http.Request) (*page, error) {
	ctx := r.Context()
	lane := adapters.LaneRef{Route: r.PathValue("route")}
	var err1, err2 error
	lane.Slot, err1 = strconv.Atoi(r.PathValue("slot"))
	seq, err2 := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	gone := server.Failed(http.StatusNotFound, "this message is not parked any more: it was delivered, skipped or purged")
	if err1 != nil || err2 != nil {
		return nil, gone
	}
	shown := r.URL.Query().Get("payload") == "show"
	if shown {
		if err := need(r, operate.RoleOperate); err != nil {
			return nil, err
		}
	}
	var found []operate.ParkedMessage
	err := s.console.Use(ctx, func(op *operate.Operator) (err error) {
		found, err = op.ParkedWhole(ctx, adapters.ParkedFilter{Route: lane.Route, Limit: 1, After: adapters.ParkedKey{LaneRef: lane, Seq: seq - 1}}, operate.GlanceBytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Table != "" || found[0].LaneRef != lane || found[0].Seq != seq {
		return nil, gone
	}
	return &page{Name: "message", Title: "Message " + found[0].ID, Data: describe(&found[0], shown)}, nil
}

// describe prepares a message for its page.
func describe(p *operate.ParkedMessage, shown bool) messageData {
	d := messageData{ParkedMessage: p, Key: keyOf(p), Shown: shown, Size: int(p.Size), Confirms: map[string]link{}}
	for _, name := range sortedNames(p.Metadata) {
		value := console.Masked
		if shown {
			value = p.Metadata[name]
		}
		d.Meta = append(d.Meta, [2]string{name, value})
	}
	switch payload, ok := console.MaskedJSON(p.Payload); {
	case p.Bare:
	case !ok && shown && utf8.Valid(p.Payload):
		d.Text = string(p.Payload)
	case !ok:
		d.Binary = true
	case shown:
		d.Text = indent(p.Payload)
	default:
		if text, err := json.Marshal(payload); err == nil {
			d.Text = indent(text)
		}
	}
	for _, change := range []adapters.ParkedAction{adapters.ParkedRedrive, adapters.ParkedSkip, adapters.ParkedPurge} {
		if slices.Contains(change.Statuses(adapters.ParkedFilter{ID: p.ID}), p.Status) {
			d.Confirms[string(change)] = query("action", string(change), "route", p.Route, "id", p.ID, "back", string("/parked?"+query("route", p.Route)))
		}
	}
	if p.Group != "" {
		d.Followers = query("route", p.Route, "group", p.Group)
	}
	return d
}

// indent returns JSON with a line for each value, or as it is if the spaces before those would take more than a payload may.
func indent(text []byte) string {
	depth, spaces := 0, 0
	for _, b := range text { // what is in texts counts as well: that is shown as it is a little sooner
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
		default:
			continue
		}
		spaces += 2 * depth
	}
	var out bytes.Buffer
	if int64(spaces) > operate.GlanceBytes || json.Indent(&out, text, "", "  ") != nil {
		return string(text)
	}
	return out.String()
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
