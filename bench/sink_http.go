package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// endpoint is a sink: an HTTP server in the process of the harness, which keeps
// what it is sent and looks at it when the run is over.
type endpoint struct {
	path  string        // that is answered
	delay time.Duration // before an answer
	read  reading
	manners
}

// reading is how the requests of an endpoint are understood.
type reading interface {
	// count returns how many messages a body has, quickly.
	count(body []byte) int

	// check gives the messages of a request to the checker.
	check(c *checker, r *request) error
}

// request is what came.
type request struct {
	at     time.Time // when its body had been read
	header http.Header
	body   []byte
}

// httpReceiver is the server of a run.
type httpReceiver struct {
	endpoint
	server *http.Server
	url    string
	served chan error

	mu       sync.Mutex
	requests []request
	messages int
}

func (e endpoint) open(ctx context.Context, _ *servers) (receiver, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &httpReceiver{endpoint: e, url: "http://" + listener.Addr().String(), served: make(chan error, 1)}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: consumeLimit}
	go func() { h.served <- h.server.Serve(listener) }()
	return h, nil
}

// ServeHTTP keeps the request, waits and answers 200.
func (h *httpReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != h.path || r.ContentLength < 0 {
		http.Error(w, "the benchmark takes a POST with its length to "+h.path, http.StatusNotFound)
		return
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return // the relay has gone, or its request is unusable: it was not delivered
	}
	n := h.read.count(body)
	h.mu.Lock()
	h.requests = append(h.requests, request{time.Now(), r.Header, body})
	h.messages += n
	h.mu.Unlock()
	if h.delay > 0 {
		late := time.NewTimer(h.delay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(http.StatusOK)
}

func (h *httpReceiver) describe(j *job) { j.URL = h.url }

func (h *httpReceiver) received(context.Context) (int, time.Time, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.requests) == 0 {
		return 0, time.Time{}, nil
	}
	return h.messages, h.requests[len(h.requests)-1].at, nil
}

// examine takes the requests in the order in which they came: of a group the
// next one is sent when the one before has been answered.
func (h *httpReceiver) examine(_ context.Context, c *checker) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.requests {
		if err := h.read.check(c, &h.requests[i]); err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	return nil
}

func (h *httpReceiver) close() error {
	err := h.server.Close()
	if served := <-h.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// countPayloads counts payloads by what begins each.
func countPayloads(body []byte) int { return bytes.Count(body, []byte(payloadStart)) }
