package http

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

// itemOf makes the message of a row of a kind.
func itemOf(kind, id, payload string) *message.Message {
	return adapters.NewMessage(&adapters.Row{ID: id, Kind: kind, Type: "t", Group: kind + ":g", Payload: []byte(payload)}, "r/00")
}

func TestFlowCatalystEndpoints(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	for _, base := range []string{r.URL, r.URL + "/", r.URL + "/eu//"} {
		d := destination(t, FlowCatalyst(Config{URL: base, Token: "tok"}))
		for kind, want := range map[string]string{
			"EVENT": "/api/events/batch", "": "/api/events/batch", "DISPATCH_JOB": "/api/dispatch/jobs/batch",
		} {
			want = strings.TrimRight(base, "/") + want
			address, err := d.Address(itemOf(kind, "1", "{}"))
			if err != nil || address != want {
				t.Errorf("base %s, kind %q: address %q, %v, want %q", base, kind, address, err, want)
			}
		}
		_, err := d.Address(itemOf("OTHER", "1", "{}"))
		if outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(fmt.Sprint(err), "DISPATCH_JOB, EVENT") {
			t.Errorf("an unknown kind: %v", err)
		}
	}
	d := destination(t, FlowCatalyst(Config{URL: r.URL, Token: "tok"}))
	batch := []*message.Message{itemOf("DISPATCH_JOB", "1", `{"id" : "0HZXEQ5Y8JY5Z",  "n": 1.50}`), itemOf("DISPATCH_JOB", "2", `{}`)}
	if errs := d.Deliver(t.Context(), r.URL+FlowCatalystDispatchJobs, batch); errs != nil {
		t.Fatal(errs)
	}
	got := r.seen()[0]
	if got.uri != FlowCatalystDispatchJobs || got.body != `[{"id" : "0HZXEQ5Y8JY5Z",  "n": 1.50},{}]` {
		t.Errorf("%s was sent %s", got.uri, got.body)
	}
	wantHeaders(t, got.header, map[string]string{"Authorization": "Bearer tok", "Content-Type": "application/json"})
}

func TestFlowCatalystDefaultsAndOverrides(t *testing.T) {
	t.Parallel()
	d := destination(t, FlowCatalyst(Config{URL: "http://127.0.0.1"}))
	want := adapters.Ordering{MaxMessages: 100, MaxBytes: DefaultMaxBytes, MaxGroups: 1, MaxRequests: 10, Pooled: true, Whole: true}
	if got := d.Ordering(); got != want || d.cfg.ConnectTimeout != 10*time.Second || d.cfg.Timeout != 30*time.Second {
		t.Errorf("%+v with %v and %v", got, d.cfg.ConnectTimeout, d.cfg.Timeout)
	}
	d = destination(t, FlowCatalyst(Config{URL: "http://127.0.0.1", MaxMessages: 7, MaxGroups: 3, MaxRequests: 2, Timeout: time.Second,
		ConnectTimeout: time.Minute, MaxBytes: 5}))
	want = adapters.Ordering{MaxMessages: 7, MaxBytes: 5, MaxGroups: 3, MaxRequests: 2, Pooled: true, Whole: true}
	if got := d.Ordering(); got != want || d.cfg.ConnectTimeout != time.Minute || d.cfg.Timeout != time.Second {
		t.Errorf("%+v with %v and %v", got, d.cfg.ConnectTimeout, d.cfg.Timeout)
	}
}

func TestPathsWantABaseURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://127.0.0.1/?k=v": "without query", "http://127.0.0.1/{{.Tenant}}": "placeholders", "ftp://x": "http://", "": "url: none given",
	} {
		if _, err := New(FlowCatalyst(Config{URL: url})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
	}
	if _, err := New(Config{URL: "http://127.0.0.1", Paths: map[string]string{"A": "no/slash"}}); err == nil {
		t.Error("a path without slash was accepted")
	}
}

// Every item of a refused request has failed; nothing is sent again to find one.
func TestG10_FlowCatalystStatuses(t *testing.T) {
	t.Parallel()
	for status := 300; status < 600; status++ {
		want := outbox.KindTransient
		switch status {
		case 401, 403, 404, 405, 407, 429, 502, 503, 504:
			want = outbox.KindUnavailable
		case 410:
			want = outbox.KindGone
		}
		if status < 400 {
			want = outbox.KindUnavailable
		}
		d := destination(t, FlowCatalyst(Config{URL: "http://127.0.0.1"}))
		if got := d.outcome.Statuses.Kind(status); got != want {
			t.Errorf("status %d is %v, want %v", status, got, want)
		}
	}
	d := destination(t, FlowCatalyst(Config{URL: "http://127.0.0.1", Statuses: map[int]outbox.Kind{422: outbox.KindPermanent, 403: outbox.KindTransient}}))
	if d.outcome.Statuses.Kind(422) != outbox.KindPermanent || d.outcome.Statuses.Kind(403) != outbox.KindTransient {
		t.Error("the preset goes before the configuration")
	}
}

func TestG2_FlowCatalystFailsWholeBatches(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 422, 500, 503} {
		r := newReceiver(t)
		r.setAnswer(func(http.ResponseWriter, *http.Request, []adaptertest.Received) int { return status })
		d := destination(t, FlowCatalyst(Config{URL: r.URL}))
		errs := d.Deliver(t.Context(), r.URL+FlowCatalystEvents,
			[]*message.Message{itemOf("EVENT", "1", `{}`), itemOf("EVENT", "2", `{}`), itemOf("EVENT", "3", `{}`)})
		if len(errs) != 3 || slices.Contains(errs, nil) || len(r.seen()) != 1 {
			t.Fatalf("status %d: %v in %d requests", status, errs, len(r.seen()))
		}
		for i, err := range errs {
			answered := status != http.StatusServiceUnavailable
			if outbox.AnsweredBy(err) != answered || outbox.KindOf(err) == outbox.KindReleased {
				t.Errorf("status %d, item %d: %v (%v, answered %t)", status, i+1, err, outbox.KindOf(err), outbox.AnsweredBy(err))
			}
		}
	}
}

// Nobody refused anything: whether the receiver hangs or the item is to blame
// is not known, so one item is charged, and the router counts by groups.
func TestNoAnswerChargesTheFirstOfABatch(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.setAnswer(func(_ http.ResponseWriter, req *http.Request, _ []adaptertest.Received) int {
		<-req.Context().Done()
		return http.StatusOK
	})
	d := destination(t, FlowCatalyst(Config{URL: r.URL, Timeout: 50 * time.Millisecond}))
	errs := d.Deliver(t.Context(), r.URL+FlowCatalystEvents, []*message.Message{itemOf("EVENT", "1", `{}`), itemOf("EVENT", "2", `{}`)})
	if len(errs) != 2 || outbox.KindOf(errs[0]) != outbox.KindTransient || outbox.AnsweredBy(errs[0]) || outbox.KindOf(errs[1]) != outbox.KindReleased {
		t.Errorf("got %v", errs)
	}
}
