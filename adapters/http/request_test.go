package http

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestRequest(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := destination(t, Config{
		URL: r.URL + "/in/{{.Type}}?fixed=1&t={{.Group}}", Token: "tok", Headers: map[string]string{"X-Api": "v"},
	})
	first := newMessage("1", "g/ h&")
	address, err := d.Address(first)
	if err != nil || address != r.URL+"/in/test.happened?t=g%2F+h%26" {
		t.Fatalf("Address = %q, %v", address, err)
	}
	if errs := d.Deliver(t.Context(), address, []*message.Message{first}); errs != nil {
		t.Fatal(errs)
	}
	got := r.seen()[0]
	if got.uri != "/in/test.happened?t=g%2F+h%26&fixed=1" || got.body != `[{"id": "1"}]` {
		t.Errorf("request %s with %s", got.uri, got.body)
	}
	wantHeaders(t, got.header, map[string]string{
		"Authorization": "Bearer tok", "X-Api": "v", "Content-Type": "application/json",
		"Idempotency-Key": "1", "Outrider-Type": "test.happened", "Outrider-Position": "7", "Outrider-Lane": "test/00",
	})
	if errs := d.Deliver(t.Context(), address, []*message.Message{first, newMessage("2", "g/ h&")}); errs != nil {
		t.Fatal(errs)
	}
	wantHeaders(t, r.seen()[1].header, map[string]string{"Idempotency-Key": "", "Outrider-Position": ""})
}

func wantHeaders(t *testing.T, got http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("header %s is %q, want %q", name, got.Get(name), value)
		}
	}
}

func TestUserInformationIsBasicAuthentication(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := destination(t, Config{URL: strings.Replace(r.URL, "://", "://user:p%40ss@", 1), Format: format.CloudEvents})
	if err := one(t, d, newMessage("1", "g")); err != nil {
		t.Fatal(err)
	}
	wantHeaders(t, r.seen()[0].header, map[string]string{
		"Authorization": "Basic dXNlcjpwQHNz", "Content-Type": "application/cloudevents-batch+json",
	})
}

func TestConnectionIsReused(t *testing.T) {
	t.Parallel()
	remotes := map[string]bool{}
	d := answering(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		remotes[r.RemoteAddr] = true
		if len(remotes) == 1 {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write(make([]byte, 3000))
	})
	for range 3 {
		_ = one(t, d, newMessage("1", "g")) // refused
	}
	if len(remotes) != 1 {
		t.Errorf("%d connections for 3 requests", len(remotes))
	}
}

func TestG12_SecretsStayOut(t *testing.T) {
	t.Parallel()
	const canary = "CANARY-7f3a"
	r := newReceiver(t)
	base := strings.Replace(r.URL, "://", "://user:"+canary+"@", 1) + "/in?key=" + canary
	down := strings.Replace(base, r.Listener.Addr().String(), "127.0.0.1:1", 1)
	echo := answering(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://user:"+canary+"@elsewhere/?key="+canary)
		w.WriteHeader(http.StatusFound)
		_, _ = w.Write([]byte(r.Header.Get("Authorization") + " " + r.Header.Get("X-Key") + " " + r.RequestURI))
	})
	echoURL := strings.Replace(echo.cfg.URL, "://", "://user:"+canary+"@", 1) + "?key=" + canary
	var texts []string
	for _, cfg := range []Config{
		{URL: base}, {URL: down}, {URL: echoURL},
		{URL: echo.cfg.URL, Token: canary},
		{URL: echo.cfg.URL, Headers: map[string]string{"X-Key": canary, "Authorization": "Key " + canary}},
		{URL: base + "\x7f"}, {URL: "ftp://user:" + canary + "@h/"}, {URL: "http://user:" + canary + "@"},
		{URL: "http://user:" + canary + "@{{.Type}}/"}, {URL: "http://h/?key=" + canary + "{{.Nope}}"},
		{URL: "http://h/", Token: canary + "\n"}, {URL: "http://h/", Headers: map[string]string{"X": canary + "\n"}},
	} {
		d, err := New(cfg)
		if err != nil {
			texts = append(texts, err.Error())
			continue
		}
		t.Cleanup(func() { _ = d.Close() })
		address, _ := d.Address(newMessage("1", "g"))
		texts = append(texts, address)
		if err := one(t, d, newMessage("1", "g")); err != nil {
			texts = append(texts, err.Error())
		}
	}
	for _, text := range texts {
		if strings.Contains(text, canary) {
			t.Errorf("a secret shows in: %s", text)
		}
	}
	if len(texts) < 14 {
		t.Errorf("only %d texts were checked: %q", len(texts), texts)
	}
}

func TestAnswerIsQuotedShort(t *testing.T) {
	t.Parallel()
	d := answering(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("bad\r\nfield\x00 " + strings.Repeat("é", 5000)))
	})
	err := one(t, d, newMessage("1", "g"))
	if err == nil || !strings.Contains(err.Error(), ": bad field é") || len(err.Error()) > 400 {
		t.Errorf("error %v, want a short quote on one line", err)
	}
}

func TestAddressErrors(t *testing.T) {
	t.Parallel()
	d := destination(t, Config{URL: "http://h/a/{{.Group}}/b"})
	for group, want := range map[string]string{"..": `".."`, "": "nothing to put"} {
		msg := newMessage("1", group)
		if _, err := d.Address(msg); outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(err.Error(), want) {
			t.Errorf("group %q: %v, want a permanent error with %q", group, err, want)
		}
	}
	if got, err := d.Address(newMessage("1", "x/../y")); outbox.KindOf(err) != outbox.KindPermanent {
		t.Errorf("Address = %q, %v", got, err)
	}
	if d.Ordering().Static || !destination(t, Config{URL: "http://h/a?b=c"}).Ordering().Static {
		t.Error("Static is wrong")
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"url: none given":                  {},
		"url: must begin with http":        {URL: "example.com/x"},
		"url: the host must not depend":    {URL: "https://{{.Tenant}}.example.com/"},
		"url: has no valid host":           {URL: "http:///x"},
		"url: must not have a fragment":    {URL: "http://h/#x"},
		"Typ":                              {URL: "http://h/{{.Typ}}"},
		"watermill is one message":         {URL: "http://h", Format: format.Watermill, MaxMessages: 2},
		"timeout: must not be negative":    {URL: "http://h", Timeout: -1},
		"headers: content-type is set by":  {URL: "http://h", Headers: map[string]string{"content-type": "x"}},
		"Authorization is given beside":    {URL: "http://h", Token: "t", Headers: map[string]string{"authorization": "x"}},
		`"a b" is not a valid header name`: {URL: "http://h", Headers: map[string]string{"a b": "x"}},
		"statuses: 200 cannot be given":    {URL: "http://h", Statuses: map[int]outbox.Kind{200: outbox.KindGone}},
		"statuses: 409 cannot be released": {URL: "http://h", Statuses: map[int]outbox.Kind{409: outbox.KindReleased}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want an error with %q", err, want)
		}
	}
}
