package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/admin/status"
)

// printOwners lists below the table the instances and their lanes. Of an
// instance that is alone the table has said it all.
func (a *app) printOwners(rows []status.RouteStatus, members []status.Member) error {
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
				fmt.Fprintf(a.out, "\ninstance %s takes no lanes of route %s: %s\n", plain(m.ID), w.Route, plain(w.Why))
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
