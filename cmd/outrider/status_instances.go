package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// owned is what one instance owns of a route.
type owned struct {
	Owner string     `json:"owner"`
	Alive bool       `json:"alive"`
	Slots []int      `json:"slots"`
	Since *time.Time `json:"since,omitempty"` // when it took the latest of them
}

// own adds a lane to what its owner has.
func (p *progress) own(l adapters.LaneStatus) {
	if l.Owner == "" {
		return
	}
	i := slices.IndexFunc(p.Owned, func(o owned) bool { return o.Owner == l.Owner })
	if i < 0 {
		i = len(p.Owned)
		p.Owned = append(p.Owned, owned{Owner: l.Owner, Alive: l.Alive})
	}
	o := &p.Owned[i]
	o.Slots = append(o.Slots, l.Slot)
	if !l.Since.IsZero() && (o.Since == nil || l.Since.After(*o.Since)) {
		o.Since = &l.Since
	}
}

// member is an instance as status shows it.
type member struct {
	ID        string    `json:"id"`
	Alive     bool      `json:"alive"`
	JoinedAt  time.Time `json:"joined_at"`
	Heartbeat time.Time `json:"heartbeat_at"`
	Lanes     int       `json:"lanes"`
	Routes    int       `json:"routes"`
	Waits     []waits   `json:"waits,omitempty"`
}

// waits is a route that an instance runs and takes nothing of.
type waits struct {
	Route string `json:"route"`
	Why   string `json:"why"`
}

func membersOf(instances []adapters.Instance, lanes []adapters.LaneStatus) []member {
	out := []member{}
	for _, i := range instances {
		m := member{ID: i.ID, Alive: i.Alive, JoinedAt: i.JoinedAt, Heartbeat: i.RenewedAt, Routes: len(i.Routes)}
		for _, r := range i.Routes {
			if r.Waits != "" {
				m.Waits = append(m.Waits, waits{r.Route, r.Waits})
			}
		}
		for _, l := range lanes {
			if l.Owner == i.ID {
				m.Lanes++
			}
		}
		out = append(out, m)
	}
	return out
}

// printOwners lists below the table the instances and their lanes. Of an
// instance that is alone the table has said it all.
func (a *app) printOwners(rows []progress, members []member) error {
	if len(members) > 1 {
		var cells [][]string
		for _, r := range rows {
			for _, o := range r.Owned {
				cells = append(cells, []string{r.Route, o.Owner, slotRanges(o.Slots), yesNo(o.Alive), since(o.Since)})
			}
		}
		fmt.Fprintln(a.out)
		if err := a.printTable([]string{"ROUTE", "OWNER", "LANES", "ALIVE", "SINCE"}, cells); err != nil {
			return err
		}
	}
	if len(members) > 0 {
		var cells [][]string
		for _, m := range members {
			cells = append(cells, []string{m.ID, yesNo(m.Alive), strconv.Itoa(m.Lanes), strconv.Itoa(m.Routes), ago(m.Heartbeat), ago(m.JoinedAt)})
		}
		fmt.Fprintln(a.out)
		if err := a.printTable([]string{"INSTANCE", "ALIVE", "LANES", "ROUTES", "HEARTBEAT", "JOINED"}, cells); err != nil {
			return err
		}
	}
	for _, m := range members {
		for _, w := range m.Waits {
			if m.Alive {
				fmt.Fprintf(a.out, "\ninstance %s takes nothing of route %s: %s\n", plain(m.ID), w.Route, plain(w.Why))
			}
		}
	}
	return nil
}

// slotRanges writes ascending slots for people: 00-04 07 09-15.
func slotRanges(slots []int) string {
	var parts []string
	for i := 0; i < len(slots); {
		j := i
		for j+1 < len(slots) && slots[j+1] == slots[j]+1 {
			j++
		}
		text := fmt.Sprintf("%02d", slots[i])
		if j > i {
			text += fmt.Sprintf("-%02d", slots[j])
		}
		parts = append(parts, text)
		i = j + 1
	}
	return strings.Join(parts, " ")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// since is [ago] for a time that may not be known.
func since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return ago(*t)
}
