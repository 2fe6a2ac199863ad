package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// flowSink is a sink that can give what comes to a [flow] at once.
type flowSink interface {
	pour(ctx context.Context, s *servers, f *flow) (receiver, error)
}

// flowReceiver keeps nothing: the flow notes what comes.
type flowReceiver struct{ flow *flow }

func (r flowReceiver) received(context.Context) (n int, last time.Time, err error) {
	n, last = r.flow.received()
	return n, last, nil
}

// examine has nothing to give to the checker.
func (flowReceiver) examine(context.Context, *checker) error { return nil }

// flowTopic is the topic of a run and its consumer.
type flowTopic struct {
	flowReceiver
	topic  topicReceiver
	client *kgo.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	err error
}

func (tap) pour(ctx context.Context, s *servers, f *flow) (receiver, error) {
	name, remove, err := s.createTopic(ctx)
	if err != nil {
		return nil, err
	}
	t := &flowTopic{flowReceiver: flowReceiver{f}, topic: topicReceiver{s, name, remove}, done: make(chan struct{})}
	if t.client, err = s.consumer(ctx, name); err != nil {
		return nil, errors.Join(err, remove())
	}
	ctx, t.stop = context.WithCancel(ctx)
	go t.consume(ctx)
	return t, nil
}

// consume takes records until ctx ends.
func (t *flowTopic) consume(ctx context.Context) {
	defer close(t.done)
	for {
		fetches := t.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		t.err = errors.Join(t.err, fetches.Err())
		t.mu.Unlock()
		fetches.EachRecord(func(r *kgo.Record) { t.flow.arrive(r.Value) })
	}
}

func (t *flowTopic) received(ctx context.Context) (n int, last time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return 0, last, t.err
	}
	return t.flowReceiver.received(ctx)
}

func (t *flowTopic) describe(j *job) { t.topic.describe(j) }

func (t *flowTopic) close() error {
	t.stop()
	<-t.done
	t.client.Close()
	return t.topic.close()
}

// manners are what an endpoint does beside taking what comes.
type manners struct {
	refuse int    // group whose messages are answered with a failure; 0: none
	hang   string // path on which nothing is answered
}

// flowServer is the HTTP server of a run.
type flowServer struct {
	flowReceiver
	endpoint
	server   *http.Server
	url      string
	served   chan error
	released chan struct{} // closed when what hangs is answered, so that a relay can stop
}

func (e endpoint) pour(ctx context.Context, _ *servers, f *flow) (receiver, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &flowServer{flowReceiver: flowReceiver{f}, endpoint: e, url: "http://" + listener.Addr().String(),
		served: make(chan error, 1), released: make(chan struct{})}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: consumeLimit}
	go func() { h.served <- h.server.Serve(listener) }()
	return h, nil
}

// ServeHTTP gives the messages of a request to the flow.
func (s *flowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the relay has gone: it was not delivered
	}
	var wait <-chan time.Time
	if s.delay > 0 {
		late := time.NewTimer(s.delay)
		defer late.Stop()
		wait = late.C
	}
	switch {
	case r.URL.Path == s.hang:
		select {
		case <-s.released:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case s.refuse != 0 && sequence(body)%s.flow.groups == s.refuse:
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	for _, payload := range s.payloads(body) {
		s.flow.arrive(payload)
	}
	if wait != nil {
		select {
		case <-wait:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(http.StatusOK)
}

// payloads are those of a request. One that cannot be read is given as a whole,
// and is no message of anybody.
func (s *flowServer) payloads(body []byte) [][]byte {
	if _, ok := s.read.(batches); !ok {
		return [][]byte{body}
	}
	var items []json.RawMessage
	if json.Unmarshal(body, &items) != nil {
		return [][]byte{body}
	}
	out := make([][]byte, len(items))
	for i, it := range items {
		out[i] = it
	}
	return out
}

func (s *flowServer) describe(j *job) { j.URL = s.url }

// release answers what hangs.
func (s *flowServer) release() { close(s.released) }

func (s *flowServer) close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
