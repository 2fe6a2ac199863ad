package measure

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

// FlowSink is a sink that can pass messages to a [Flow] as they arrive.
type FlowSink interface {
	// Pour opens a receiver for the messages of the flow.
	Pour(ctx context.Context, s *Servers, f *Flow) (Receiver, error)
}

// flowReceiver keeps nothing: the flow records the arrivals.
type flowReceiver struct{ flow *Flow }

func (r flowReceiver) Received(context.Context) (n int, last time.Time, err error) {
	n, last = r.flow.Received()
	return n, last, nil
}

// Examine does nothing: the flow has checked the messages.
func (flowReceiver) Examine(context.Context, *Checker) error { return nil }

// flowTopic is the topic of a run and its consumer.
type flowTopic struct {
	Tap
	flowReceiver
	topic  topicReceiver
	client *kgo.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	err error
}

// Pour implements [FlowSink].
func (p Tap) Pour(ctx context.Context, s *Servers, f *Flow) (Receiver, error) {
	name, remove, err := s.createTopic(ctx)
	if err != nil {
		return nil, err
	}
	t := &flowTopic{Tap: p, flowReceiver: flowReceiver{f}, topic: topicReceiver{s, name, remove}, done: make(chan struct{})}
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
		if !t.Fails {
			t.mu.Lock()
			t.err = errors.Join(t.err, fetches.Err())
			t.mu.Unlock()
		}
		fetches.EachRecord(func(r *kgo.Record) { t.flow.arrive(r.Value) })
	}
}

func (t *flowTopic) Received(ctx context.Context) (n int, last time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return 0, last, t.err
	}
	return t.flowReceiver.Received(ctx)
}

func (t *flowTopic) Describe(j *Job) { t.topic.Describe(j) }

func (t *flowTopic) Close() error {
	t.stop()
	<-t.done
	t.client.Close()
	return t.topic.Close()
}

// Manners say how an endpoint misbehaves.
type Manners struct {
	Refuse int    // group whose messages are answered with a failure; 0: none
	Hang   string // path on which nothing is answered
}

// flowServer is the HTTP server of a run.
type flowServer struct {
	flowReceiver
	Endpoint
	server   *http.Server
	url      string
	served   chan error
	released chan struct{} // closed to answer hanging requests, so that a relay can stop
}

// Pour implements [FlowSink].
func (e Endpoint) Pour(ctx context.Context, _ *Servers, f *Flow) (Receiver, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &flowServer{flowReceiver: flowReceiver{f}, Endpoint: e, url: "http://" + listener.Addr().String(),
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
	if s.Delay > 0 {
		late := time.NewTimer(s.Delay)
		defer late.Stop()
		wait = late.C
	}
	switch {
	case r.URL.Path == s.Hang:
		select {
		case <-s.released:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case s.Refuse != 0 && sequence(body)%s.flow.groups == s.Refuse:
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

// payloads returns those of a request. An unreadable body is returned as a whole
// and counts as foreign.
func (s *flowServer) payloads(body []byte) [][]byte {
	if _, ok := s.Read.(Batches); !ok {
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

func (s *flowServer) Describe(j *Job) { j.URL = s.url }

// Release answers the hanging requests.
func (s *flowServer) Release() { close(s.released) }

func (s *flowServer) Close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
