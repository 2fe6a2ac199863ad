package faults_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// webhookSecrets sign; receivers know the second one, the older.
var webhookSecrets = [2]string{"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}

// toWebhook is a destination of signed requests to this machine.
func toWebhook(url string) string {
	return fmt.Sprintf("type: webhook, url: %q, secrets: [%q, %q], allow_networks: [127.0.0.0/8]", url, webhookSecrets[0], webhookSecrets[1])
}

// hooks watches how requests overlap.
type hooks struct {
	verify *standardwebhooks.Webhook

	mu      sync.Mutex
	groups  map[string]int // requests that are being served
	most    int            // groups served at once
	attempt int
	failed  int
}

// enter records a request of a group, and returns the group's number of requests.
func (h *hooks) enter(group string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attempt++
	h.groups[group]++
	h.most = max(h.most, len(h.groups))
	return h.groups[group]
}

func (h *hooks) leave(group string, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if failed {
		h.failed++
	}
	if h.groups[group]--; h.groups[group] == 0 {
		delete(h.groups, group)
	}
}

// serve takes four of five requests. The others fail in the ways there are: by
// a status, before anything was taken or after, or by no answer at all.
func (h *hooks) serve(r *receiver, w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var p payload
	if err != nil || json.Unmarshal(body, &p) != nil {
		return // cut off
	}
	if err := h.verify.Verify(body, req.Header); err != nil {
		r.t.Errorf("message %s: the reference library refuses the request: %v", p.ID, err)
	}
	if req.Header.Get("webhook-id") != p.ID || req.Header.Get("Idempotency-Key") != p.ID || req.Header.Get("Outrider-Position") == "" {
		r.t.Errorf("message %s came with the headers %v", p.ID, req.Header)
	}
	if n := h.enter(p.Group); n > 1 {
		r.t.Errorf("group %s has %d requests at once", p.Group, n)
	}
	failure := rand.IntN(100)
	defer func() { h.leave(p.Group, failure < 20) }()
	pause(req.Context(), rand.N(2*time.Millisecond))
	switch {
	case failure < 10:
		w.WriteHeader(http.StatusInternalServerError)
	case failure < 14:
		w.WriteHeader(http.StatusBadRequest)
	case failure < 16:
		w.WriteHeader(http.StatusRequestTimeout)
	case failure < 18:
		r.take([]payload{p}) // and forgets to say so: it will come again
		w.WriteHeader(http.StatusInternalServerError)
	case failure < 20:
		panic(http.ErrAbortHandler)
	default:
		r.take([]payload{p})
	}
}

func TestG2_WebhooksUnderRandomFailures(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	const groups = 400
	messages := testenv.Brief(1500, 3000)
	verify, err := standardwebhooks.NewWebhook(webhookSecrets[1])
	must(t, err)
	h := &hooks{verify: verify, groups: map[string]int{}}
	to := receiveWith(t, h.serve)
	db := newDatabase(t)
	db.fill(batch{n: messages / 2, groups: groups, prefix: "before"})
	r := start(t, settings{
		// An endpoint for each group: one for all would be taken for down
		// whenever two groups fail in a row, which costs a pause each time.
		database: db.url, destination: toWebhook(to.url() + "/hooks/{{.Group}}?key=1"),
		middleware: "[poison, {retry: {attempts: 100, base: 20ms, max: 200ms}}, timeout]",
	}.text())
	r.until("delivers", func() bool { return to.arrived() > 0 })
	writers := write(t, db.pool, false) // late commits, rollbacks
	db.fill(batch{n: messages / 2, groups: groups, prefix: "beside"})
	r.until("delivered the backlog", func() bool { return to.arrived() >= messages })
	writers.stop()
	r.until("delivered everything", func() bool { return to.arrived() >= len(db.rows()) })
	r.stop()
	if n := db.parked("true"); n > 0 {
		t.Errorf("%d messages are parked", n)
	}
	report := check.Compare(db.rows(), to.all()...)
	t.Logf("webhooks of %d groups and more, up to %d at once, %d of %d requests failed: %v", groups, h.most, h.failed, h.attempt, report)
	if !report.Clean() {
		t.Errorf("not clean: %v", report)
	}
	if h.most < 16 || h.failed < h.attempt/10 {
		t.Errorf("the scenario is too easy: %d groups at once, %d of %d requests failed", h.most, h.failed, h.attempt)
	}
}
