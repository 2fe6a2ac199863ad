package http

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// platform answers requests of FlowCatalyst's current API.
type platform struct {
	*httptest.Server
	mu   sync.Mutex
	seen []request
}

func newPlatform(t *testing.T, status int, answer string) (*platform, *Destination) {
	t.Helper()
	p := &platform{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		p.seen = append(p.seen, request{header: req.Header.Clone(), uri: req.RequestURI, body: string(body)})
		p.mu.Unlock()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(p.Close)
	return p, destination(t, FlowCatalystV2(Config{URL: p.URL, Token: "tok"}))
}

func TestFlowCatalystV2Requests(t *testing.T) {
	t.Parallel()
	for kind, path := range map[string]string{
		"EVENT": "/api/events/batch", "DISPATCH_JOB": "/api/dispatch-jobs/batch", "AUDIT_LOG": "/api/audit-logs/batch",
	} {
		r, d := newPlatform(t, 200, `{"results":[{"id":"1","status":"SUCCESS"},{"id":"","status":"SKIPPED"}]}`)
		address, err := d.Address(itemOf(kind, "1", "{}"))
		if err != nil || address != r.URL+path {
			t.Fatalf("kind %s: address %q, %v", kind, address, err)
		}
		if errs := d.Deliver(t.Context(), address, []*message.Message{itemOf(kind, "1", `{"id" : 1.50}`), itemOf(kind, "2", `{}`)}); errs != nil {
			t.Errorf("kind %s: %v", kind, errs)
		}
		got := r.seen[0]
		if got.uri != path || got.body != `{"items":[{"id" : 1.50},{}]}` || got.header.Get("Content-Length") != strconv.Itoa(len(got.body)) {
			t.Errorf("%s was sent %s with %v", got.uri, got.body, got.header)
		}
		wantHeaders(t, got.header, map[string]string{"Authorization": "Bearer tok", "Content-Type": "application/json"})
	}
	_, d := newPlatform(t, 200, "")
	if o := d.Ordering(); o.MaxMessages != 100 || o.MaxRequests != 10 || o.MaxGroups != 0 || o.PerGroup != 1 {
		t.Errorf("ordering %+v", o)
	}
	if _, err := d.Address(itemOf("OTHER", "1", "{}")); outbox.KindOf(err) != outbox.KindPermanent {
		t.Errorf("an unknown kind: %v", err)
	}
}

// wantCode looks at an error's kind, code and whether the receiver answered.
func wantCode(t *testing.T, what string, err error, kind outbox.Kind, code string, answered bool) {
	t.Helper()
	e, ok := errors.AsType[*outbox.Error](err)
	if !ok || e.Kind != kind || e.Code != code || e.Answered != answered {
		t.Errorf("%s: got %+v, want %v %s, answered %t", what, err, kind, code, answered)
	}
}

// What the platform says of an item is for that item alone.
func TestG2_FlowCatalystV2ResultsAreByItem(t *testing.T) {
	t.Parallel()
	want := []struct {
		status   string
		kind     outbox.Kind
		code     string
		answered bool
	}{
		{"BAD_REQUEST", outbox.KindPermanent, "BAD_REQUEST", true}, {"FORBIDDEN", outbox.KindPermanent, "FORBIDDEN", true},
		{"INTERNAL_ERROR", outbox.KindTransient, "INTERNAL_ERROR", true}, {"UNAUTHORIZED", outbox.KindTransient, "UNAUTHORIZED", true},
		{"GATEWAY_ERROR", outbox.KindTransient, "GATEWAY_ERROR", true}, {"NO_IDEA", outbox.KindTransient, "INTERNAL_ERROR", true},
	}
	results, batch := []string{`{"status":"SUCCESS"}`}, []*message.Message{itemOf("EVENT", "0", "{}")}
	for i, w := range want {
		results = append(results, fmt.Sprintf(`{"status":%q,"error":"why %d"}`, w.status, i))
		batch = append(batch, adapters.NewMessage(&adapters.Row{ID: strconv.Itoa(i), Kind: "EVENT", Group: strconv.Itoa(i), Payload: []byte(`{}`)}, "r/00"))
	}
	r, d := newPlatform(t, 200, `{"results":[`+strings.Join(results, ",")+`]}`)
	errs := d.Deliver(t.Context(), r.URL+FlowCatalystEvents, batch)
	if len(errs) != len(batch) || errs[0] != nil {
		t.Fatalf("got %v", errs)
	}
	for i, w := range want {
		wantCode(t, w.status, errs[i+1], w.kind, w.code, w.answered)
		if !strings.Contains(fmt.Sprint(errs[i+1]), fmt.Sprint("why ", i)) {
			t.Errorf("%v does not say why", errs[i+1])
		}
	}
}

// An answer that has no result for each item is a failed attempt of all, and so is what another status says.
func TestG2_FlowCatalystV2AnswersWithoutResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status   int
		answer   string
		kind     outbox.Kind
		code     string
		answered bool
		requests int
	}{
		{200, ``, outbox.KindTransient, "INTERNAL_ERROR", true, 1},
		{200, `{"ok":true}`, outbox.KindTransient, "INTERNAL_ERROR", true, 1},
		{200, `{"results":[{"status":"SUCCESS"}]}`, outbox.KindTransient, "INTERNAL_ERROR", true, 1},
		{500, ``, outbox.KindTransient, "INTERNAL_ERROR", true, 1},
		{422, ``, outbox.KindTransient, "INTERNAL_ERROR", true, 1},
		{400, `{"code":"BATCH_TOO_LARGE"}`, outbox.KindPermanent, "BAD_REQUEST", true, 3}, // each alone, then
		{401, ``, outbox.KindUnavailable, "UNAUTHORIZED", true, 1},
		{403, ``, outbox.KindUnavailable, "FORBIDDEN", true, 1},
		{503, ``, outbox.KindUnavailable, "GATEWAY_ERROR", true, 1},
	} {
		r, d := newPlatform(t, c.status, c.answer)
		errs := d.Deliver(t.Context(), r.URL+FlowCatalystEvents, []*message.Message{itemOf("EVENT", "1", `{}`),
			adapters.NewMessage(&adapters.Row{ID: "2", Kind: "EVENT", Payload: []byte(`{}`)}, "r/00")})
		if len(errs) != 2 || len(r.seen) != c.requests {
			t.Errorf("%d %s: %d requests, %v", c.status, c.answer, len(r.seen), errs)
			continue
		}
		for _, err := range errs {
			wantCode(t, fmt.Sprint(c.status, c.answer), err, c.kind, c.code, c.answered)
		}
	}
}
