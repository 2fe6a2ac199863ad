package faults_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A message that waits for its address was read together with others, which are
// long delivered. It must not keep those in memory.
func TestG7_MemoryWhileAnAddressHangs(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	const every = 24 // of so many messages one waits
	messages := size(t, 288, 10_000)
	waiting := messages / every
	db := newDatabase(t)
	for i := range waiting {
		db.fill(batch{n: every - 1, groups: every - 1, prefix: fmt.Sprintf("ok%d-", i), tenant: "ok", bytes: 1_000_000})
		db.fill(batch{n: 1, groups: 1, prefix: fmt.Sprintf("stuck%d-", i), tenant: "stuck", bytes: 1_000_000})
	}
	release := make(chan struct{})
	to := receiveWith(t, func(r *receiver, w http.ResponseWriter, req *http.Request) { // a request is one message
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if req.URL.Path == "/stuck" {
			select {
			case <-release:
			case <-req.Context().Done():
				return
			}
		}
		r.take([]payload{{ID: req.Header.Get("Idempotency-Key"), Group: strings.TrimPrefix(req.URL.Path, "/")}})
	})
	r := start(t, settings{
		database: db.url, top: []string{"memory: 64MiB"},
		destination: toHTTP(to.url()+"/{{.Tenant}}") + ", timeout: 10m",
	}.text())
	r.until("delivered the others", func() bool { return to.arrivedOf("ok") >= messages-waiting })
	peak := r.peakMiB()
	close(release)
	r.until("delivered everything", func() bool { return to.arrived() >= messages })
	r.stop()
	t.Logf("%d of %d messages of 1 MB wait for an address that hangs, memory: 64MiB: at most %d MiB resident, %d bound; %d arrived",
		waiting, messages, peak, memoryBound, to.arrived())
	if peak > memoryBound || to.arrived() != messages {
		t.Errorf("%d MiB resident, want at most %d; %d of %d messages arrived", peak, memoryBound, to.arrived(), messages)
	}
}

// Messages that the receiver refuses are dead, and in memory until they are written.
func TestG7_MemoryWithDeadMessages(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	messages := size(t, 288, 10_000)
	db := newDatabase(t)
	db.fill(batch{n: messages, groups: 150, bytes: 1_000_000})
	to := receiveWith(t, func(r *receiver, w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // the answer is the same
		r.take([]payload{{ID: req.Header.Get("Idempotency-Key")}})
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	r := start(t, settings{database: db.url, top: []string{"memory: 64MiB"}, destination: toHTTP(to.url())}.text())
	r.until("refused everything", func() bool { return to.arrived() >= messages })
	r.until("parked everything", func() bool { return db.parked("status = 'dead'") == messages })
	peak := r.peakMiB()
	r.stop()
	t.Logf("%d messages of 1 MB are refused, memory: 64MiB: at most %d MiB resident, %d bound", messages, peak, memoryBound)
	if peak > memoryBound {
		t.Errorf("%d MiB resident, want at most %d", peak, memoryBound)
	}
}
