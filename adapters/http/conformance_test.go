package http

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, f := range []format.Format{format.Raw, format.CloudEvents, format.Watermill} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness { return harness(t, f) })
		})
	}
}

func harness(t *testing.T, f format.Format) adaptertest.Harness {
	r := newReceiver(t)
	var mu sync.Mutex
	exists := map[string]bool{"/a": true, "/b": true}
	serve := func(_ http.ResponseWriter, req *http.Request, _ []adaptertest.Received) int {
		mu.Lock()
		defer mu.Unlock()
		if !exists[req.URL.Path] {
			return http.StatusNotFound
		}
		return 0
	}
	r.setAnswer(serve)
	return adaptertest.Harness{
		Destination: destination(t, Config{URL: r.URL + "/{{.Type}}", Format: f}),
		Addresses:   []string{r.URL + "/a", r.URL + "/b"},
		Opaque:      f == format.Raw,
		JSONOnly:    f == format.Raw,
		Received: func(_ *testing.T, address string) []adaptertest.Received {
			return r.at(address[len(r.URL):])
		},
		Missing: r.URL + "/missing",
		Create: func(*testing.T) {
			mu.Lock()
			defer mu.Unlock()
			exists["/missing"] = true
		},
		Reject: r.reject,
		Hang: func(*testing.T) func() {
			gate := make(chan struct{})
			r.setAnswer(func(_ http.ResponseWriter, req *http.Request, _ []adaptertest.Received) int {
				select {
				case <-gate:
					return http.StatusServiceUnavailable
				case <-req.Context().Done():
					return http.StatusServiceUnavailable
				}
			})
			return func() { r.setAnswer(serve); close(gate) }
		},
		Break: func(*testing.T) func() { return r.breakDown(t) },
	}
}

// breakDown makes the receiver's port refuse connections until it is repaired.
func (r *receiver) breakDown(t *testing.T) (repair func()) {
	address := r.Listener.Addr().String()
	r.Close()
	return func() {
		s := httptest.NewUnstartedServer(r)
		_ = s.Listener.Close()
		l, err := listen(address)
		if err != nil {
			t.Fatal(err)
		}
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
	}
}
