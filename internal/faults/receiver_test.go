package faults_test

import (
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
)

// receiver is an HTTP endpoint that takes JSON arrays of payloads, records what
// it took in order, and answers as the scenario wants.
type receiver struct {
	t       *testing.T
	address string
	serve   func(*receiver, http.ResponseWriter, *http.Request)

	asked    atomic.Bool // a request has come
	mu       sync.Mutex
	server   *http.Server
	stopped  chan struct{}
	taken    []check.Delivery
	distinct map[string]struct{}
}

// receive starts a receiver. answer returns the status of a request, before
// anything is recorded; it may block until the request's context ends, and
// nothing is recorded then. nil answers 200 to everything.
func receive(t *testing.T, answer func(*http.Request, []payload) int) *receiver {
	t.Helper()
	return receiveWith(t, func(r *receiver, w http.ResponseWriter, req *http.Request) {
		var batch []payload
		if err := json.NewDecoder(req.Body).Decode(&batch); err != nil {
			// A request that was cut off by a kill: nothing of it was taken.
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.asked.Store(true)
		status := http.StatusOK
		if answer != nil {
			status = answer(req, batch)
		}
		if status == http.StatusOK && req.Context().Err() == nil {
			r.take(batch)
		}
		w.WriteHeader(status)
	})
}

// receiveWith starts a receiver with a handler of its own.
func receiveWith(t *testing.T, serve func(*receiver, http.ResponseWriter, *http.Request)) *receiver {
	t.Helper()
	r := &receiver{t: t, address: "127.0.0.1:0", serve: serve, distinct: map[string]struct{}{}}
	r.up()
	t.Cleanup(r.down)
	return r
}

func (r *receiver) url() string { return "http://" + r.address }

// up makes the receiver listen, on the address that it has had before.
func (r *receiver) up() {
	r.t.Helper()
	var l net.Listener
	until(r.t, "the receiver's address is free", func() bool {
		var err error
		l, err = net.Listen("tcp", r.address)
		return err == nil
	})
	r.address = l.Addr().String()
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.serve(r, w, req) })
	r.server = &http.Server{Handler: handler, ReadHeaderTimeout: patience}
	r.stopped = make(chan struct{})
	go func() {
		defer close(r.stopped)
		_ = r.server.Serve(l) // it ends by down
	}()
}

// down makes the receiver refuse connections and drops those that are open.
func (r *receiver) down() {
	_ = r.server.Close()
	<-r.stopped
}

func (r *receiver) take(batch []payload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range batch {
		r.taken = append(r.taken, check.Delivery{ID: p.ID, Group: p.Group})
		r.distinct[p.ID] = struct{}{}
	}
}

// arrived counts the different messages that came so far.
func (r *receiver) arrived() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.distinct)
}

// all returns what was taken, as one stream.
func (r *receiver) all() [][]check.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return [][]check.Delivery{append([]check.Delivery(nil), r.taken...)}
}

// slowly answers 200 after a time, or when the client has gone.
func slowly(d time.Duration) func(*http.Request, []payload) int {
	return func(req *http.Request, _ []payload) int {
		pause(req.Context(), d)
		return http.StatusOK
	}
}
