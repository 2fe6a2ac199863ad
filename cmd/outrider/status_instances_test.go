package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
)

func TestStatusTellsWhoOwnsWhat(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var lanes []adapters.LaneStatus
	for slot := range adapters.Slots {
		l := adapters.LaneStatus{LaneRef: adapters.LaneRef{Route: "orders", Slot: slot}, Owner: "a", Alive: true, Since: now.Add(-time.Minute), Epoch: 7}
		switch {
		case slot == 3 || slot > 8:
			l.Owner, l.Alive = "b", false
		case slot == 5:
			l.Owner = ""
		}
		lanes = append(lanes, l)
	}
	instances := []adapters.Instance{
		{ID: "a", Alive: true, JoinedAt: now.Add(-time.Hour), RenewedAt: now, Routes: []adapters.RunningRoute{{Route: "orders"},
			{Route: "bills", Unit: "source app", Waits: "standing by: another process holds the advisory lock 7"}}},
		{ID: "b", JoinedAt: now.Add(-time.Hour), RenewedAt: now.Add(-time.Minute)},
	}
	var out bytes.Buffer
	a := &app{out: &out}
	rows := status.EachLane(lanes)
	if rows[3].Epoch != 7 || rows[3].Since == nil || rows[3].Owners[0] != "b" {
		t.Errorf("a lane is shown as %+v", rows[3])
	}
	sum := status.RouteStatus{Route: "orders"}
	for _, l := range lanes {
		sum.Add(l)
	}
	if err := a.printOwners([]status.RouteStatus{sum}, status.MembersOf(instances, lanes)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"orders  a      00-02 04 06-08  yes    1m0s ago", "orders  b      03 09-15        no",
		"a         yes    7      2       0s ago     1h0m ago", "b         no     8      0       1m0s ago",
		"instance a takes no lanes of route bills: standing by: another process holds the advisory lock 7",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}
