package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// confirmData is what an action will touch.
type confirmData struct {
	Action  string
	Verb    string // of the button
	Grave   bool   // it cannot be undone
	Count   int
	More    bool // the count is too low
	Counts  []adapters.ParkedCount
	Chips   []chip
	Facts   [][2]string // about what it will touch
	Undone  []string    // what cannot be undone, and what follows
	Fields  [][2]string
	Numbers []choice // that may be given
	Back    link
	Nothing string // why there is nothing to do
	Samples []operate.ParkedMessage
	Paced   bool // it goes in the background, at a rate
}

// roles are those that actions need.
var roles = map[string]operate.Role{
	"pause": operate.RoleOperate, "resume": operate.RoleOperate, "redrive": operate.RoleOperate, "skip": operate.RoleOperate,
	"purge": operate.RoleAdmin, "seek": operate.RoleAdmin, "seek-routes": operate.RoleAdmin, "rebase": operate.RoleAdmin, "forget": operate.RoleAdmin,
	"retain": operate.RoleAdmin, "reload": operate.RoleAdmin, "end-transaction": operate.RoleAdmin, "create-topic": operate.RoleAdmin, "probe": operate.RoleOperate, "remove-instance": operate.RoleAdmin,
	"stop-operation": operate.RoleOperate, "resume-operation": operate.RoleOperate, // and what the operation itself needs
}

// confirm shows what an action will touch, and what of it cannot be undone.
func (s *pages) confirm(r *http.Request) (*page, error) {
	q := r.URL.Query()
	action := q.Get("action")
	role, ok := roles[action]
	if !ok {
		return nil, failed(http.StatusUnprocessableEntity, "there is no action %q", action)
	}
	if err := need(r, role); err != nil {
		return nil, err
	}
	d := confirmData{Action: action, Back: link(localPath(q.Get("back")))}
	var err error
	switch action {
	case "redrive", "skip", "purge":
		err = s.confirmParked(r.Context(), q, &d)
	case "seek":
		err = s.confirmSeek(r.Context(), q, &d)
	case "seek-routes":
		err = s.confirmSeekOfRoutes(r.Context(), q, &d)
	case "rebase":
		err = s.confirmRebase(r.Context(), q, &d)
	case "forget":
		err = s.confirmForget(r.Context(), q, &d)
	case "retain":
		err = s.confirmRetain(r.Context(), &d)
	case "end-transaction":
		err = s.confirmEnd(r.Context(), q, &d)
	case "create-topic":
		err = s.confirmTopic(r.Context(), q, &d)
	case "remove-instance":
		s.confirmRemoval(r.Context(), q, &d)
	case "pause":
		d.Fields, d.Verb = [][2]string{{"route", q.Get("route")}, {"address", q.Get("address")}, {"reason", q.Get("reason")}}, "Pause"
		d.Undone = []string{"Deliveries in flight are finished first. Nothing is lost: rows stay in the table until the route is resumed."}
	case "reload":
		d.Verb = "Reload"
		d.Undone = []string{"Routes that changed finish what is in flight and begin again. If the file is wrong nothing changes, and the error is shown here."}
	default:
		return nil, failed(http.StatusUnprocessableEntity, "%s needs no confirmation", action)
	}
	return &page{Name: "confirm", Title: titles[action], Data: d}, err
}

// titles are those of the pages that confirm.
var titles = map[string]string{
	"redrive": "Redrive messages", "skip": "Skip messages", "purge": "Purge dead messages", "seek": "Seek", "seek-routes": "Seek many routes", "rebase": "Rebase", "forget": "Forget a route", "retain": "Remove old rows", "pause": "Pause", "reload": "Reload the configuration",
	"end-transaction": "End a transaction", "create-topic": "Create a topic", "remove-instance": "Remove an instance",
}

// samplesMost is how many messages a confirmation shows.
const samplesMost = 5

func (s *pages) confirmParked(ctx context.Context, q url.Values, d *confirmData) error {
	f, set, err := filterOf(q)
	if err != nil {
		return err
	}
	c := adapters.ParkedCommand{Action: adapters.ParkedAction(d.Action), Filter: f, All: f.IsZero()}
	for _, name := range filterNames {
		if v := set.Get(name); v != "" {
			d.Chips = append(d.Chips, chip{Name: name, Value: v})
			d.Fields = append(d.Fields, [2]string{name, v})
		}
	}
	count, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err = s.console.Search(count, func(count context.Context, op *operate.Operator) (err error) {
		if d.Counts, err = op.CountParked(count, c); err != nil {
			return err
		}
		for _, status := range c.Action.Statuses(f) {
			f.Status, f.Limit = status, samplesMost-len(d.Samples)
			if f.Limit <= 0 {
				break
			}
			found, err := op.Parked(count, f)
			if err != nil {
				return err
			}
			d.Samples = append(d.Samples, found...)
		}
		return nil
	})
	if err != nil && count.Err() != nil && ctx.Err() == nil {
		return failed(http.StatusServiceUnavailable, "the messages could not be counted in %v: add a route to the filter, or use `outrider parked %s`, which takes its time", requestTime, d.Action)
	}
	for _, n := range d.Counts {
		d.Count += n.Count
	}
	d.Fields = append(d.Fields, [2]string{"count", strconv.Itoa(d.Count)})
	messages := plural(d.Count, "message", "messages")
	if d.Paced = d.Count > background; d.Paced {
		defer func() {
			d.Undone = append(d.Undone, "So many are changed in the background: the page Operations shows the progress and can stop it.")
		}()
	}
	switch c.Action {
	case adapters.ParkedRedrive:
		d.Verb = "Redrive " + messages
		d.Undone = []string{"They are tried again now, with fresh attempts. A receiver that took one before without answering gets it again."}
	case adapters.ParkedSkip:
		d.Verb, d.Grave = "Skip "+messages, true
		d.Undone = []string{"They are never delivered, and their groups go on behind them.", "This cannot be undone. The rows stay in the outbox table until its retention removes them: a seek back delivers them again, with everything behind them."}
	case adapters.ParkedPurge:
		d.Verb, d.Grave = "Purge "+messages, true
		d.Undone = []string{"They are deleted from the state store; dead rows of a queue are deleted from its table.", "This cannot be undone."}
	}
	if d.Count == 0 {
		d.Nothing = "Nothing to " + d.Action + ": no message matches, or they have been delivered meanwhile."
	}
	return err
}

// do carries an action out and leads back.
func (s *pages) do(r *http.Request) (*page, error) {
	form := r.PostForm
	action := form.Get("action")
	role, ok := roles[action]
	if !ok {
		return nil, failed(http.StatusUnprocessableEntity, "there is no action %q", action)
	}
	if err := need(r, role); err != nil {
		return nil, err
	}
	defer s.console.Changed()
	var said string
	var err error
	switch ctx := r.Context(); action {
	case "pause", "resume":
		said, err = s.pausing(ctx, action, form)
	case "redrive", "skip", "purge":
		said, err = s.change(ctx, adapters.ParkedAction(action), form)
	case "seek":
		said, err = s.seek(ctx, form)
	case "seek-routes":
		said, err = s.seekRoutes(ctx, form)
	case "rebase":
		said, err = s.rebase(ctx, form)
	case "forget":
		said, err = s.forget(ctx, form)
	case "retain":
		said, err = s.retain(ctx)
	case "end-transaction":
		said, err = s.endTransaction(ctx, form)
	case "create-topic":
		said, err = s.createTopic(ctx, form)
	case "remove-instance":
		said, err = s.removeInstance(ctx, form)
	case "probe":
		said = s.probe(form)
	case "stop-operation", "resume-operation":
		said, err = s.operate(ctx, action, form)
	case "reload":
		said, err = s.reload(ctx)
	}
	if err != nil {
		return nil, err
	}
	back := localPath(form.Get("back"))
	if strings.HasPrefix(said, "Started the operation") {
		back = "/operations"
	}
	sign := "?"
	if strings.Contains(back, "?") {
		sign = "&"
	}
	return redirect(back + sign + "notice=" + s.notices.add(said, false)), nil
}

func (s *pages) pausing(ctx context.Context, action string, form url.Values) (said string, err error) {
	route, address, group := form.Get("route"), strings.TrimSpace(form.Get("address")), strings.TrimSpace(form.Get("group"))
	if address != "" && group != "" {
		return "", failed(http.StatusUnprocessableEntity, "give an address or a group, not both")
	}
	if form.Has("part") && address == "" && group == "" {
		return "", failed(http.StatusUnprocessableEntity, "nothing was paused: give an address or a group; to pause all of route %s use the button Pause %s", route, route)
	}
	what := "route " + route
	if group != "" {
		what = "group " + group + " of route " + route
	}
	if address != "" {
		what = "address " + operate.ShownAddress(address) + " of route " + route
	}
	err = s.console.Use(ctx, func(op *operate.Operator) error {
		if ok, err := op.Knows(ctx, route); err != nil || !ok {
			return errors.Join(err, unknownRoute(ok, route))
		}
		var changed bool
		var err error
		if action == "pause" {
			changed, err = op.Pause(ctx, adapters.Pause{Route: route, Address: address, Group: group, Reason: form.Get("reason"), By: operate.PageAuthor(ctx)})
			said = "Paused " + what + ". Instances finish what is in flight."
		} else {
			if group != "" {
				changed, err = op.ResumeGroup(ctx, route, group, operate.PageAuthor(ctx))
			} else {
				changed, err = op.Resume(ctx, route, address, operate.PageAuthor(ctx))
			}
			said = "Resumed " + what + "."
		}
		if !changed {
			said = "Nothing changed: " + what + " is paused already."
			if action == "resume" {
				said = "Nothing changed: " + what + " is not paused."
			}
		}
		return err
	})
	return said, err
}

func unknownRoute(ok bool, route string) error {
	if ok {
		return nil
	}
	return failed(http.StatusNotFound, "there is no route %q", route)
}

// requestTime is how long a request may change messages.
const requestTime = 20 * time.Second

// change changes at most as many messages as the caller confirmed.
func (s *pages) change(ctx context.Context, action adapters.ParkedAction, form url.Values) (said string, err error) {
	f, _, err := filterOf(form)
	if err != nil {
		return "", err
	}
	count, err := strconv.Atoi(form.Get("count"))
	if err != nil || count <= 0 {
		return "", failed(http.StatusUnprocessableEntity, "the form does not say how many messages were confirmed: open the page again")
	}
	c := adapters.ParkedCommand{Action: action, Filter: f, All: f.IsZero(), By: operate.PageAuthor(ctx)}
	c.Filter.Limit = count
	if count > background {
		var rate int
		if text := form.Get("rate"); text != "" {
			if rate, err = strconv.Atoi(text); err != nil || rate < 1 || rate > 1_000_000 {
				return "", failed(http.StatusUnprocessableEntity, "the rate is a number of messages a second, from 1 to 1,000,000")
			}
		}
		return s.start(ctx, c, rate)
	}
	limited, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	changed := 0
	err = s.console.Use(ctx, func(op *operate.Operator) (err error) {
		changed, err = op.ChangeParked(limited, c, operate.Pace{})
		return err
	})
	if limited.Err() != nil && changed > 0 {
		err = nil
	}
	done := map[adapters.ParkedAction]string{adapters.ParkedRedrive: "Redrove", adapters.ParkedSkip: "Skipped", adapters.ParkedPurge: "Purged"}[action]
	said = fmt.Sprintf("%s %s.", done, plural(changed, "message", "messages"))
	if changed < count {
		said += fmt.Sprintf(" %s of the %s confirmed ones remain, or were delivered meanwhile.", number(count-changed), number(count))
	}
	return said, err
}

func (s *pages) reload(ctx context.Context) (said string, err error) {
	if err := s.console.Reload(ctx, operate.PageAuthor(ctx)); err != nil {
		if server.StatusOf(err) != http.StatusInternalServerError {
			return "", err
		}
		return "", failed(http.StatusConflict, "the configuration was not changed: %v", err)
	}
	return strings.TrimSpace("Reloaded: " + plural(len(s.console.Config().Routes), "route", "routes") + " at work. " + s.pending()), nil
}

// pending says what of the file a reload has not applied; nothing: all of it is at work.
func (s *pages) pending() string {
	sections := s.console.Pending()
	if len(sections) == 0 {
		return ""
	}
	return "Restart the relay to apply what has changed in " + strings.Join(sections, " and ") + "."
}

// localPath is a path of ours that a form names, without the notice that it may carry.
func localPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.Contains(text, "\\") {
		return "/"
	}
	q := u.Query()
	q.Del("notice")
	u.RawQuery = q.Encode()
	return u.String()
}
