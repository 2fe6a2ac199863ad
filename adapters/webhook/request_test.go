package webhook

import (
	"encoding/json"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

func wantHeaders(t *testing.T, got http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if values := got.Values(name); len(values) > 1 || got.Get(name) != value {
			t.Errorf("header %s is %q, want %q", name, values, value)
		}
	}
}

// sample is a message that has everything, and headers that mean harm.
func sample() *message.Message {
	return adapters.NewMessage(&adapters.Row{
		ID: "evt_1", Type: "order.created", Group: "group é\"%", AggregateType: "order", AggregateID: "1", Position: 42,
		Headers: map[string]string{
			"traceparent": "00-1", "x-own": "kept", "Host": "evil", "content-length": "1", "Transfer-Encoding": "chunked",
			"Connection": "close", "Authorization": "theirs", "webhook-id": "theirs", "Webhook-Signature": "theirs",
			"ce-type": "theirs", "CE-ID": "theirs", "ce-ID": "theirs", "idempotency-key": "theirs", "X-Configured": "theirs",
			"bad name": "x", "bad-value": "a\nb", "content-type": "application/vnd.order+json",
		},
		OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Payload:    []byte(`{ "n": 1.50 }`),
	}, "orders/07")
}

// common is what every request has.
var common = map[string]string{
	"webhook-id": "evt_1", "Idempotency-Key": "evt_1", "Outrider-Type": "order.created", "Outrider-Position": "42",
	"Outrider-Lane": "orders/07", "User-Agent": "Outrider", "Connection": "", "X-Configured": "ours",
	"Authorization": "Basic bWU6cHc=",
}

func request1(t *testing.T, f format.Format, path string) request {
	t.Helper()
	r := newReceiver(t) // which verifies the signature
	d := destination(t, Config{
		URL: strings.Replace(r.URL, "://", "://me:pw@", 1) + path, Format: f, CloudEventsSource: "/shop",
		Headers: map[string]string{"x-configured": "ours", "host": "hooks.example"},
	})
	if err := one(t, d, sample()); err != nil {
		t.Fatal(err)
	}
	got := r.seen()[0]
	wantHeaders(t, got.header, common)
	if got.host != "hooks.example" {
		t.Errorf("host %q", got.host)
	}
	return got
}

func TestRaw(t *testing.T) {
	t.Parallel()
	got := request1(t, format.Raw, "/in/{{.Type}}?fixed=1&g={{.Group}}")
	if got.uri != "/in/order.created?g=group+%C3%A9%22%25&fixed=1" || got.body != `{ "n": 1.50 }` {
		t.Errorf("request %s with %s", got.uri, got.body)
	}
	wantHeaders(t, got.header, map[string]string{
		"Content-Type": "application/vnd.order+json", "Traceparent": "00-1", "X-Own": "", "ce-id": "",
	})
}

func TestStructuredCloudEvent(t *testing.T) {
	t.Parallel()
	got := request1(t, format.CloudEvents, "/in")
	wantHeaders(t, got.header, map[string]string{"Content-Type": "application/cloudevents+json", "ce-id": ""})
	var event map[string]any
	if err := json.Unmarshal([]byte(got.body), &event); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"specversion": "1.0", "id": "evt_1", "type": "order.created", "source": "/shop", "subject": "1",
		"partitionkey": "group é\"%", "outriderposition": "42", "datacontenttype": "application/vnd.order+json",
	} {
		if event[name] != want {
			t.Errorf("attribute %s is %v, want %v", name, event[name], want)
		}
	}
	if !strings.HasSuffix(got.body, `"data":{ "n": 1.50 }}`) {
		t.Errorf("the payload is not embedded byte for byte: %s", got.body)
	}
}

func TestBinaryCloudEvent(t *testing.T) {
	t.Parallel()
	got := request1(t, CloudEventsBinary, "/in")
	if got.body != `{ "n": 1.50 }` {
		t.Errorf("body %s", got.body)
	}
	wantHeaders(t, got.header, map[string]string{
		"Content-Type": "application/vnd.order+json", "ce-specversion": "1.0", "ce-id": "evt_1", "ce-type": "order.created",
		"ce-source": "/shop", "ce-subject": "1", "ce-time": "2026-01-02T03:04:05.000000006Z",
		"ce-partitionkey": "group%20%C3%A9%22%25", "ce-outriderposition": "42", "ce-outriderlane": "orders/07",
		"ce-outrideraggregatetype": "order", "Traceparent": "00-1", "X-Own": "",
	})
}

// Of a row's own headers only those pass that are named, and none that says what
// Outrider says.
func TestHeadersOfARowArePassedOnByAList(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := destination(t, Config{URL: r.URL, Format: CloudEventsBinary, PassHeaders: []string{"x-own", "x-app-*", "outrider-*", "ce-*"}})
	msg := message.NewMessage("evt_1", []byte("{}"))
	msg.Metadata = message.Metadata{
		outbox.MetaType: "order.created", outbox.MetaPosition: "42", outbox.MetaLane: "orders/07",
		"X-Own": "kept", "x-app-region": "eu", "x-other": "not named", "oUtRiDeR-Poison-Error": "spoofed", "Outrider-Position": "1",
		"outrider-group": "spoofed", "ce-id": "spoofed", "ce-outriderposition": "1", "ce-extension": "kept", "cookie": "c",
	}
	if errs := d.Deliver(t.Context(), r.URL, []*message.Message{msg}); errs != nil {
		t.Fatal(errs)
	}
	wantHeaders(t, r.seen()[0].header, map[string]string{
		"X-Own": "kept", "X-App-Region": "eu", "X-Other": "", "Outrider-Poison-Error": "", "Outrider-Position": "42", "Outrider-Group": "",
		"ce-id": "evt_1", "ce-outriderposition": "42", "ce-extension": "kept", "Cookie": "",
	})
	msg.Metadata["x-app-large"] = strings.Repeat("x", 8<<10)
	if errs := d.Deliver(t.Context(), r.URL, []*message.Message{msg}); len(errs) != 1 || outbox.KindOf(errs[0]) != outbox.KindPermanent {
		t.Errorf("more than 8 KiB: %v", errs)
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"": "", "plain!~": "plain!~", "a b": "a%20b", `"%`: "%22%25", "é€": "%C3%A9%E2%82%AC", "\n\x7f": "%0A%7F", "\xff": "%EF%BF%BD",
	} {
		if got := format.Escape(s); got != want {
			t.Errorf("Escape(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestEmptyPayload(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	msg := newMessage("1", "g")
	msg.Payload, msg.Metadata[outbox.MetaEncoding] = nil, outbox.EncodingBytes
	if err := one(t, destination(t, Config{URL: r.URL}), msg); err != nil {
		t.Fatal(err)
	}
	wantHeaders(t, r.seen()[0].header, map[string]string{"Content-Length": "0", "Content-Type": "application/octet-stream"})
}

// A connection is used again after answers of every kind, as long as their rest
// is of a reasonable length.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	remotes := map[string]bool{}
	requests := 0
	d := answering(t, Config{Capture: 100}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		remotes[r.RemoteAddr] = true
		requests++
		n := requests
		mu.Unlock()
		w.WriteHeader([]int{200, 400, 503, 204, 302}[n%5])
		if n%5 != 3 {
			_, _ = w.Write(make([]byte, n*3000))
		}
	})
	for range 20 {
		_ = one(t, d, newMessage("1", "g")) // some are refused
	}
	if len(remotes) != 1 {
		t.Errorf("%d connections for 20 requests", len(remotes))
	}
}

// The receiver may close an idle connection at the moment of the next request:
// nothing has failed then.
func TestAClosedIdleConnectionIsNoFailure(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := destination(t, Config{URL: r.URL})
	for range 10 {
		if err := one(t, d, newMessage("1", "g")); err != nil {
			t.Fatal(err)
		}
		r.CloseClientConnections()
	}
}

func TestTheAnswerIsCappedAndHarmless(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("bad\r\nfield\x00\x1b[31m\u202e " + strings.Repeat("é", 1<<20)))
	}
	for capture, want := range map[int]int{0: DefaultCapture, 1000: 1000, -1: 0} {
		err := one(t, answering(t, Config{Capture: capture}, answer), newMessage("1", "g"))
		if err == nil || len(err.Error()) < want || len(err.Error()) > want+200 {
			t.Errorf("capture %d: an error of %d bytes", capture, len(err.Error()))
		}
		if want > 0 && !strings.Contains(err.Error(), ": bad field [31m é") {
			t.Errorf("capture %d: %.100s..., want one line without control characters", capture, err)
		}
	}
}

func TestG12_SecretsStayOut(t *testing.T) {
	t.Parallel()
	const canary = "CANARY-7f3a"
	echo := answering(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://user:"+canary+"@elsewhere/?key="+canary)
		w.WriteHeader(http.StatusFound)
		// The secret stands where the capture ends.
		for _, s := range []string{r.Header.Get("Authorization"), r.Header.Get("X-Key"), r.RequestURI, secret, secret[6:]} {
			_, _ = w.Write([]byte(s + " "))
		}
	})
	base := echo.cfg.URL
	withUser := strings.Replace(base, "://", "://user:"+canary+"@", 1)
	var texts []string
	for _, cfg := range []Config{
		{URL: withUser + "?key=" + canary}, {URL: strings.Replace(withUser, base[7:], "127.0.0.1:1/in?key="+canary, 1)},
		{URL: base, Headers: map[string]string{"X-Key": canary, "Authorization": "Key " + canary}},
		{URL: withUser + "\x7f"}, {URL: "ftp://user:" + canary + "@h/"}, {URL: "http://user:" + canary + "@"},
		{URL: "http://user:" + canary + "@{{.Type}}/"}, {URL: "http://h/?key=" + canary + "{{.Nope}}"},
		{URL: "http://h/%zz?key=" + canary}, {URL: "http://h/", Headers: map[string]string{"X": canary + "\n"}},
		{URL: "http://h/", Secrets: []string{"whsec_" + canary, "whsk_" + canary, canary}},
	} {
		for capture := 1; capture < 120; capture += 7 {
			cfg.AllowPrivate, cfg.Capture = true, capture
			if cfg.Secrets == nil {
				cfg.Secrets = []string{secret}
			}
			d, err := New(cfg)
			if err != nil {
				texts = append(texts, err.Error())
				break
			}
			address, _ := d.Address(newMessage("1", "g"))
			texts = append(texts, address)
			if err := one(t, d, newMessage("1", "g")); err != nil {
				texts = append(texts, err.Error())
			}
			_ = d.Close()
		}
	}
	for _, text := range texts {
		for _, s := range []string{canary, "CANARY", secret[6:20], "dXNlcjpD"} { // user:C
			if strings.Contains(text, s) {
				t.Errorf("a secret shows in: %s", text)
			}
		}
	}
	if len(texts) < 100 {
		t.Errorf("only %d texts were checked", len(texts))
	}
}

func TestAddressErrors(t *testing.T) {
	t.Parallel()
	d := destination(t, Config{URL: "http://h/a/{{.Group}}/b"})
	for group, want := range map[string]string{"..": `".."`, "": "nothing to put"} {
		if _, err := d.Address(newMessage("1", group)); outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(err.Error(), want) {
			t.Errorf("group %q: %v, want a permanent error with %q", group, err, want)
		}
	}
	if d.Ordering().Static || !destination(t, Config{URL: "http://h/a?b=c"}).Ordering().Static {
		t.Error("Static is wrong")
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"url: none given":                       {},
		"secrets: none given":                   {URL: "http://h"},
		"url: must begin with http":             {URL: "example.com/x"},
		"url: the host must not depend":         {URL: "https://{{.Tenant}}.example.com/"},
		"url: must not have a fragment":         {URL: "http://h/#x"},
		"url: has a path or query that is not":  {URL: "http://h/%zz"},
		"url: 127.0.0.1 is a loopback address":  {URL: "http://127.0.0.1/"},
		"format: \"watermill\" is not one of":   {URL: "http://h", Format: format.Watermill},
		"timeout: must not be negative":         {URL: "http://h", Timeout: -1},
		"rate: must not be negative":            {URL: "http://h", Rate: math.NaN()},
		"allow networks: invalid Prefix":        {URL: "http://h", AllowNetworks: []netip.Prefix{{}}},
		"allow networks: ::ffff:10.0.0.0/104":   {URL: "http://h", AllowNetworks: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
		"headers: Webhook-Id is set by":         {URL: "http://h", Headers: map[string]string{"Webhook-Id": "x"}},
		"headers: ce-type is set by":            {URL: "http://h", Headers: map[string]string{"ce-type": "x"}},
		"headers: content-type is set by":       {URL: "http://h", Headers: map[string]string{"content-type": "x"}},
		"statuses: 200 cannot be given":         {URL: "http://h", Statuses: map[int]outbox.Kind{200: outbox.KindGone}},
		"accept: 600 cannot be given a meaning": {URL: "http://h", Accept: []int{600}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want an error with %q", err, want)
		}
	}
}
