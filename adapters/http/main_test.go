package http

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is an endpoint that remembers what it took, by path.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	requests []request
	taken    map[string][]adaptertest.Received
	rejected map[string]bool
	// answer decides about a request: 0 continues to take it.
	answer func(w http.ResponseWriter, r *http.Request, items []adaptertest.Received) (status int)
}

// request is what a receiver saw of a request.
type request struct {
	header http.Header
	uri    string
	body   string
	items  []adaptertest.Received
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{taken: map[string][]adaptertest.Received{}, rejected: map[string]bool{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP takes a request unless answer or a rejected message says otherwise.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender went away
	}
	items := parse(req, body)
	r.mu.Lock()
	r.requests = append(r.requests, request{req.Header.Clone(), req.RequestURI, string(body), items})
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		if status := answer(w, req, items); status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "no")
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, it := range items {
		if r.rejected[it.ID] {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
	}
	r.taken[req.URL.Path] = append(r.taken[req.URL.Path], items...)
}

// parse reads a batch of any format.
func parse(req *http.Request, body []byte) []adaptertest.Received {
	if id := req.Header.Get(HeaderWatermillUUID); id != "" {
		var metadata message.Metadata
		_ = json.Unmarshal([]byte(req.Header.Get(HeaderWatermillMetadata)), &metadata)
		return []adaptertest.Received{{ID: id, Type: metadata[outbox.MetaType], Position: metadata[outbox.MetaPosition],
			Lane: metadata[outbox.MetaLane], Payload: body}}
	}
	var elements []json.RawMessage
	if json.Unmarshal(body, &elements) != nil {
		return nil
	}
	items := make([]adaptertest.Received, len(elements))
	for i, e := range elements {
		if req.Header.Get("Content-Type") == "application/json" {
			var payload struct {
				ID string `json:"id"`
			}
			_ = json.Unmarshal(e, &payload)
			items[i] = adaptertest.Received{ID: payload.ID, Payload: e}
			continue
		}
		var event struct {
			ID       string          `json:"id"`
			Type     string          `json:"type"`
			Position string          `json:"outriderposition"`
			Lane     string          `json:"outriderlane"`
			Data     json.RawMessage `json:"data"`
			Bytes    []byte          `json:"data_base64"`
		}
		_ = json.Unmarshal(e, &event)
		items[i] = adaptertest.Received{ID: event.ID, Type: event.Type, Position: event.Position, Lane: event.Lane, Payload: event.Data}
		if event.Bytes != nil {
			items[i].Payload = event.Bytes
		}
	}
	return items
}

func (r *receiver) at(path string) []adaptertest.Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]adaptertest.Received(nil), r.taken[path]...)
}

func (r *receiver) reject(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rejected[id] = true
}

func (r *receiver) setAnswer(f func(http.ResponseWriter, *http.Request, []adaptertest.Received) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *receiver) seen() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.requests...)
}

func destination(t *testing.T, cfg Config) *Destination {
	t.Helper()
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func newMessage(id, group string) *message.Message {
	return adapters.NewMessage(&adapters.Row{
		ID: id, Type: "test.happened", Group: group, Position: 7, Payload: []byte(`{"id": "` + id + `"}`),
	}, "test/00")
}

// one delivers a single message and returns its error.
func one(t *testing.T, d *Destination, msg *message.Message) error {
	t.Helper()
	address, err := d.Address(msg)
	if err != nil {
		t.Fatal(err)
	}
	errs := d.Deliver(t.Context(), address, []*message.Message{msg})
	if errs == nil {
		return nil
	}
	return errs[0]
}
