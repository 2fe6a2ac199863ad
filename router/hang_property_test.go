package router

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Some messages without a group, or on a route without order, hang at the
// destination, or as dead ones at the poison destination: whatever the window and
// the rows, all others end.
func TestG6_G13_WhatHangsStallsNobody(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		window := rapid.IntRange(4, 24).Draw(rt, "window")
		rows := rapid.IntRange(100, 500).Draw(rt, "rows")
		groups := rapid.IntRange(0, 6).Draw(rt, "groups")
		order := rapid.SampledFrom([]adapters.OrderMode{adapters.OrderGroup, adapters.OrderNone}).Draw(rt, "order")
		static, dies := rapid.Bool().Draw(rt, "static"), rapid.Bool().Draw(rt, "dies")
		hanging := map[string]bool{}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, 99), 1, 4).Draw(rt, "hanging") {
			hanging[fmt.Sprint("m", i)] = true
		}
		var err error
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 1, MaxRequests: 1000, Static: static})
			release := make(chan struct{})
			hang := func(_ string, msg *message.Message) error {
				if hanging[msg.UUID] {
					<-release
				}
				return nil
			}
			dead := &receiver{ordering: templated}
			if dies {
				dead.fail = hang
				r.dest.setFail(func(_ string, msg *message.Message) error {
					if hanging[msg.UUID] {
						return outbox.Permanent(errInjected)
					}
					return nil
				})
			} else {
				r.dest.setFail(hang)
			}
			for i := range rows {
				id, group := fmt.Sprint("m", i), ""
				if !hanging[id] && groups > 0 {
					group = fmt.Sprint("g", i%groups)
				}
				r.add(group, id)
			}
			r.start(r.route(func(rt *Route) {
				rt.Window, rt.SendTimeout, rt.Order, rt.Poison, rt.PoisonName = window, time.Hour, order, dead, "dead"
			}))
			for end := time.Now().Add(patience); r.dest.count() < rows-len(hanging) && time.Now().Before(end); {
				time.Sleep(time.Second)
			}
			if n := r.dest.count(); n != rows-len(hanging) {
				err = fmt.Errorf("%d of %d that do not hang have arrived", n, rows-len(hanging))
			}
			close(release)
			r.until("all have ended", func() bool { return r.dest.count()+dead.count() == rows })
			r.stop()
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}
