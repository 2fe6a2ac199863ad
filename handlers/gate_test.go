package handlers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

func TestCollateralStaysWithoutWakingItsChain(t *testing.T) {
	t.Parallel()
	for name, ordering := range map[string]outbox.Ordering{"wave": wave, "group": perGroup} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, ordering)
				a1, b1, b2 := b.enter("a1", "a", "x"), b.enter("b1", "b", "x"), b.enter("b2", "b", "x")
				hold := b.enter("hold", "", "x").handle()
				first := b.sent("hold")
				b2.handle()
				a1.handle()
				b1.handle()
				if ordering.Unit == outbox.UnitGroup { // each was sent as it became ready
					b.sent("a1").answer <- []error{errTest}
					b.sent("b1", "b2").answer <- []error{outbox.Released(errTest), outbox.Transient(errTest, 0)}
				} else {
					first.answer <- nil
					b.sent("a1", "b1", "b2").answer <- []error{errTest, outbox.Released(errTest), outbox.Released(errTest)}
					b2.waits()
				}
				b1.waits()
				if err := a1.result(); !errors.Is(err, errTest) {
					t.Errorf("the culprit got %v", err)
				}
				b.sent("b1", "b2").answer <- nil
				wantNil(t, b1.result())
				first.answer <- nil
				wantNil(t, hold.result())
			})
		})
	}
}
