package queuetable

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

// TestG3_ClocksOfHostsDoNotRecover: the clocks of two hosts are an hour wrong. No relay puts back what another one has just claimed, and both
// put back what is stuck by the server's clock.
func TestG3_ClocksOfHostsDoNotRecover(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var queues []*Queue
	for _, wrong := range []time.Duration{-time.Hour, time.Hour} {
		at := e.at
		at.Now = func() time.Time { return time.Now().Add(wrong) }
		q, err := New(Config{Connection: at, Tables: e.tables, Layout: e.layout})
		must(t, err)
		t.Cleanup(func() { must(t, q.Close()) })
		queues = append(queues, q)
	}
	for i, q := range queues {
		e.insert(adaptertest.QueueRow{Table: "outbox_events", Key: "fresh", Group: "g", Payload: "{}", CreatedAt: time.UnixMilli(1)})
		rows, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: lanes(), Limit: 10})
		if must(t, err); len(rows) != 1 {
			t.Fatalf("claimed %d documents", len(rows))
		}
		e.insert(adaptertest.QueueRow{Table: "outbox_events", Key: "stuck", Group: "h", Payload: "{}", CreatedAt: time.UnixMilli(1)})
		e.set(adaptertest.QueueProcessing, DefaultTimeout+time.Minute, "stuck")
		if n, err := queues[1-i].Recover(t.Context()); err != nil || n != 1 {
			t.Errorf("recovered %d documents, want the one that is stuck, %v", n, err)
		}
		if p, err := queues[1-i].Processing(t.Context(), 10); err != nil || p.Rows != 1 || p.Longest > time.Minute {
			t.Errorf("processing: %+v, %v", p, err)
		}
		lost, err := q.Settle(t.Context(), []adapters.ClaimResult{{Claim: rows[0].Claim, Outcome: outbox.OutcomeDelivered}})
		if must(t, err); len(lost) > 0 {
			t.Error("the fresh claim is lost")
		}
		_, err = e.db.Collection("outbox_events").DeleteMany(t.Context(), bson.D{})
		must(t, err)
	}
}

// TestG2_ExtensionsThatFailKeepTheClaim: many extensions in succession fail, of which the server has carried out one. The claim is ours
// whichever it was.
func TestG2_ExtensionsThatFailKeepTheClaim(t *testing.T) {
	t.Parallel()
	broken, cancel := context.WithCancel(t.Context())
	cancel()
	const failures = 9
	for _, written := range []int{0, 1, 4, 9} { // 0: none was
		e := newEnv(t)
		q := e.queue()
		t.Cleanup(func() { must(t, q.Close()) })
		e.insert(adaptertest.QueueRow{Table: "outbox_events", Key: "a", Group: "g", Payload: "{}", CreatedAt: time.UnixMilli(1)})
		rows, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: lanes(), Limit: 10})
		must(t, err)
		claims := []*adapters.Claim{rows[0].Claim}
		for i := range failures {
			if _, err := q.Extend(broken, claims); err == nil {
				t.Fatal("an extension did not fail")
			}
			if i+1 == written {
				_, err := e.db.Collection("outbox_events").UpdateByID(t.Context(), "a", bson.D{{Key: "$set", Value: bson.D{{Key: "processedAt", Value: q.Stamp(time.Time{}).Add(-time.Millisecond)}}}})
				must(t, err)
			}
		}
		if lost, err := q.Extend(t.Context(), claims); err != nil || len(lost) > 0 {
			t.Errorf("with the extension %d of %d written %d claims are lost, %v", written, failures, len(lost), err)
		}
		if lost, err := q.Settle(t.Context(), []adapters.ClaimResult{{Claim: claims[0], Outcome: outbox.OutcomeDelivered}}); err != nil || len(lost) > 0 {
			t.Errorf("with the extension %d of %d written %d results are lost, %v", written, failures, len(lost), err)
		}
	}
}
