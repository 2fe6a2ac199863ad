package webhook

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is what tests sign with.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver is an endpoint that verifies every request by the reference library,
// and remembers what it took, by path.
type receiver struct {
	*httptest.Server
	t      *testing.T
	verify *standardwebhooks.Webhook

	mu       sync.Mutex
	requests []request
	taken    map[string][]adaptertest.Received
	rejected map[string]bool
	// answer decides about a request: 0 continues to take it.
	answer func(w http.ResponseWriter, r *http.Request, item adaptertest.Received) (status int)
}

// request is what a receiver saw of a request.
type request struct {
	header http.Header
	host   string
	uri    string
	body   string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	verify, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, verify: verify, taken: map[string][]adaptertest.Received{}, rejected: map[string]bool{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() { r.Close() })
	return r
}

// ServeHTTP takes a request unless answer or a rejected message says otherwise.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender went away
	}
	if err := r.verify.Verify(body, req.Header); err != nil {
		r.t.Errorf("the reference library refuses a request: %v: %v", err, req.Header)
	}
	it := parse(req, body)
	r.mu.Lock()
	r.requests = append(r.requests, request{req.Header.Clone(), req.Host, req.RequestURI, string(body)})
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		if status := answer(w, req, it); status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "no")
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rejected[it.ID] {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	r.taken[req.URL.Path] = append(r.taken[req.URL.Path], it)
}

// parse reads a request of any format.
func parse(req *http.Request, body []byte) adaptertest.Received {
	h := req.Header
	if h.Get("Content-Type") != "application/cloudevents+json" {
		it := adaptertest.Received{ID: h.Get(headerID), Type: h.Get("Outrider-Type"), Position: h.Get("Outrider-Position"), Lane: h.Get("Outrider-Lane"), Payload: body}
		if h.Get("ce-specversion") != "" {
			it.ID, it.Type, it.Position, it.Lane = h.Get("ce-id"), h.Get("ce-type"), h.Get("ce-outriderposition"), h.Get("ce-outriderlane")
		}
		return it
	}
	var event struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Position string          `json:"outriderposition"`
		Lane     string          `json:"outriderlane"`
		Data     json.RawMessage `json:"data"`
		Bytes    []byte          `json:"data_base64"`
	}
	_ = json.Unmarshal(body, &event)
	it := adaptertest.Received{ID: event.ID, Type: event.Type, Position: event.Position, Lane: event.Lane, Payload: event.Data}
	if event.Bytes != nil {
		it.Payload = event.Bytes
	}
	return it
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

func (r *receiver) setAnswer(f func(http.ResponseWriter, *http.Request, adaptertest.Received) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *receiver) seen() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.requests...)
}

// destination returns one that may call this machine, and signs with secret,
// unless cfg says otherwise.
func destination(t *testing.T, cfg Config) *Destination {
	t.Helper()
	if cfg.Secrets == nil {
		cfg.Secrets = []string{secret}
	}
	cfg.AllowPrivate = true
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// answering returns a destination whose receiver gives one answer.
func answering(t *testing.T, cfg Config, f http.HandlerFunc) *Destination {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	if !strings.Contains(cfg.URL, "://") {
		cfg.URL = s.URL + "/in" + cfg.URL
	}
	return destination(t, cfg)
}

func listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

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
