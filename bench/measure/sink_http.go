package measure

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

// Endpoint is a sink: an HTTP server in the process of the harness. It keeps all
// requests and examines them after the run.
type Endpoint struct {
	Path  string        // that is answered
	Delay time.Duration // before an answer
	Read  reading
	Manners
}

// reading interprets the requests of an endpoint.
type reading interface {
	// count returns how many messages a body has, quickly.
	count(body []byte) int

	// check gives the messages of a request to the checker.
	check(c *Checker, r *request) error
}

// request is a received request.
type request struct {
	at     time.Time // when its body had been read
	header http.Header
	body   []byte
}

// httpReceiver is the server of a run.
type httpReceiver struct {
	Endpoint
	server *http.Server
	url    string
	served chan error

	mu       sync.Mutex
	requests []request
	messages int
}

// Open implements [Sink].
func (e Endpoint) Open(ctx context.Context, _ *Servers) (Receiver, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &httpReceiver{Endpoint: e, url: "http://" + listener.Addr().String(), served: make(chan error, 1)}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: consumeLimit}
	go func() { h.served <- h.server.Serve(listener) }()
	return h, nil
}

// ServeHTTP keeps the request, waits and answers 200.
func (h *httpReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != h.Path || r.ContentLength < 0 {
		http.Error(w, "the benchmark takes a POST with its length to "+h.Path, http.StatusNotFound)
		return
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return // the relay has gone, or its request is unusable: it was not delivered
	}
	n := h.Read.count(body)
	h.mu.Lock()
	h.requests = append(h.requests, request{time.Now(), r.Header, body})
	h.messages += n
	h.mu.Unlock()
	if h.Delay > 0 {
		late := time.NewTimer(h.Delay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(http.StatusOK)
}

func (h *httpReceiver) Describe(j *Job) { j.URL = h.url }

func (h *httpReceiver) Received(context.Context) (int, time.Time, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.requests) == 0 {
		return 0, time.Time{}, nil
	}
	return h.messages, h.requests[len(h.requests)-1].at, nil
}

// Examine takes the requests in the order in which they came: of a group the
// next one is sent when the one before has been answered.
func (h *httpReceiver) Examine(_ context.Context, c *Checker) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.requests {
		if err := h.Read.check(c, &h.requests[i]); err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	return nil
}

func (h *httpReceiver) Close() error {
	err := h.server.Close()
	if served := <-h.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// countPayloads counts the beginnings of payloads.
func countPayloads(body []byte) int { return bytes.Count(body, []byte(payloadStart)) }
