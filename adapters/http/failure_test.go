package http

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

func listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// answering returns a destination whose receiver gives one answer.
func answering(t *testing.T, cfg Config, f http.HandlerFunc) *Destination {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	if cfg.URL == "" {
		cfg.URL = s.URL + "/in"
	}
	return destination(t, cfg)
}

func TestG10_StatusTable(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]outbox.Kind{
		301: outbox.KindUnavailable, 302: outbox.KindUnavailable, 307: outbox.KindUnavailable,
		400: outbox.KindPermanent, 401: outbox.KindUnavailable, 403: outbox.KindUnavailable,
		404: outbox.KindUnavailable, 405: outbox.KindUnavailable, 407: outbox.KindUnavailable,
		408: outbox.KindTransient, 409: outbox.KindPermanent, 410: outbox.KindGone,
		413: outbox.KindPermanent, 418: outbox.KindPermanent, 422: outbox.KindPermanent,
		429: outbox.KindUnavailable, 500: outbox.KindTransient, 501: outbox.KindTransient,
		502: outbox.KindUnavailable, 503: outbox.KindUnavailable, 504: outbox.KindUnavailable,
	} {
		d := answering(t, Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		err := one(t, d, newMessage("1", "g"))
		if err == nil || outbox.KindOf(err) != want || !strings.Contains(err.Error(), strconv.Itoa(status)) {
			t.Errorf("status %d: %v (%v), want %v", status, err, outbox.KindOf(err), want)
		}
	}
	for _, status := range []int{200, 201, 202, 204} {
		d := answering(t, Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if err := one(t, d, newMessage("1", "g")); err != nil {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

func TestStatusOverride(t *testing.T) {
	t.Parallel()
	cfg := Config{Statuses: map[int]outbox.Kind{404: outbox.KindPermanent, 599: outbox.KindGone}}
	for status, want := range map[int]outbox.Kind{404: outbox.KindPermanent, 599: outbox.KindGone, 500: outbox.KindTransient} {
		d := answering(t, cfg, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if err := one(t, d, newMessage("1", "g")); outbox.KindOf(err) != want {
			t.Errorf("status %d: %v (%v), want %v", status, err, outbox.KindOf(err), want)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	d := answering(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/in" {
			t.Error("a redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere?key=SECRET", http.StatusPermanentRedirect)
	})
	err := one(t, d, newMessage("1", "g"))
	if err == nil || !strings.Contains(err.Error(), "/elsewhere") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v, want one that names where the endpoint went, without the query", err)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 503, 500} {
		d := answering(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(status)
		})
		if got := outbox.VerdictOf(one(t, d, newMessage("1", "g"))).RetryAfter; got != 30*time.Second {
			t.Errorf("status %d: retry after %v, want 30s", status, got)
		}
	}
}

func TestG10_NoConnection(t *testing.T) {
	t.Parallel()
	l, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, url := range map[string]string{
		"refused":            "http://" + l.Addr().String(),
		"DNS":                "http://nowhere.invalid",
		"unknown authority":  secure.URL,
		"TLS to a plain one": "https" + strings.TrimPrefix(plain.URL, "http"),
	} {
		d := destination(t, Config{URL: url})
		if err := one(t, d, newMessage("1", "g")); outbox.KindOf(err) != outbox.KindUnavailable {
			t.Errorf("%s: %v (%v), want unavailable", name, err, outbox.KindOf(err))
		}
	}
	trusting := destination(t, Config{URL: secure.URL, TLS: &tls.Config{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}})
	if err := one(t, trusting, newMessage("1", "g")); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a receiver that is trusted: %v, want its answer", err)
	}
}

func TestUnknownOutcomeIsTransient(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	hang := func(_ http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	}
	// patiently does something with longer and longer limits, until the receiver was
	// asked within one.
	patiently := func(try func(limit time.Duration)) {
		asked.Store(false)
		for limit := 50 * time.Millisecond; !asked.Load() && limit < time.Minute; limit *= 4 {
			try(limit)
		}
	}
	cut := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	}
	msgs := []*message.Message{newMessage("1", "g"), newMessage("2", "g"), newMessage("3", "h")}
	results := map[string][]error{}
	patiently(func(limit time.Duration) {
		d := answering(t, Config{Timeout: limit}, hang)
		results["no answer in time"] = d.Deliver(t.Context(), d.cfg.URL, msgs)
	})
	d := answering(t, Config{}, cut)
	results["connection cut"] = d.Deliver(t.Context(), d.cfg.URL, msgs)
	for name, errs := range results {
		want := []outbox.Kind{outbox.KindTransient, outbox.KindReleased, outbox.KindTransient}
		for i, err := range errs {
			if outbox.KindOf(err) != want[i] {
				t.Errorf("%s: message %d: %v (%v), want %v", name, i, err, outbox.KindOf(err), want[i])
			}
		}
	}
	d = answering(t, Config{}, hang)
	var errs []error
	patiently(func(limit time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		errs = d.Deliver(ctx, d.cfg.URL, msgs[:1])
	})
	if outbox.KindOf(errs[0]) != outbox.KindTransient {
		t.Errorf("the caller's deadline: %v (%v), want transient", errs[0], outbox.KindOf(errs[0]))
	}
}

// kinds formats errors as one letter per message: d(elivered), p(ermanent),
// r(eleased), t(ransient), u(navailable), g(one).
func kinds(n int, errs []error) string {
	if errs == nil {
		return strings.Repeat("d", n)
	}
	var b strings.Builder
	for _, err := range errs {
		if err == nil {
			b.WriteByte('d')
		} else {
			b.WriteByte(outbox.KindOf(err).String()[0])
		}
	}
	return b.String()
}

func TestG2_CulpritSearch(t *testing.T) {
	t.Parallel()
	// Groups by letter: a1 b1 a2 b2 a3 c1 b3 a4
	names := []string{"a1", "b1", "a2", "b2", "a3", "c1", "b3", "a4"}
	var msgs []*message.Message
	for _, n := range names {
		msgs = append(msgs, newMessage(n, n[:1]))
	}
	for _, test := range []struct {
		status   int
		rejected string
		whole    bool
		want     string
	}{
		{422, "a2", false, "ddpdrddr"},
		{400, "b1 c1", false, "dpdrdprd"},
		{413, "a1 a2 a3 a4", false, "pdrdrddr"},
		{422, "a1 b1 c1", false, "pprrrprr"},
		{422, "a2", true, "pppppppp"},
		{503, "a2", false, "uuuuuuuu"},
		{410, "a2", false, "gggggggg"},
		{500, "a2", false, "ttrrrtrr"},
	} {
		r := newReceiver(t)
		r.setAnswer(func(_ http.ResponseWriter, _ *http.Request, items []adaptertest.Received) int {
			for _, it := range items {
				if strings.Contains(test.rejected, it.ID) {
					return test.status
				}
			}
			return 0
		})
		d := destination(t, Config{URL: r.URL + "/in", Whole: test.whole})
		if got := kinds(len(msgs), d.Deliver(t.Context(), r.URL+"/in", msgs)); got != test.want {
			t.Errorf("%d for %s: %s, want %s", test.status, test.rejected, got, test.want)
		}
		if n := len(r.seen()); n > maxSearches {
			t.Errorf("%d for %s took %d requests", test.status, test.rejected, n)
		}
	}
}

func TestCulpritSearchIsBounded(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.setAnswer(func(http.ResponseWriter, *http.Request, []adaptertest.Received) int { return 422 })
	d := destination(t, Config{URL: r.URL})
	var msgs []*message.Message
	for i := range 100 {
		msgs = append(msgs, newMessage(strconv.Itoa(i), strconv.Itoa(i)))
	}
	got := kinds(len(msgs), d.Deliver(t.Context(), r.URL, msgs))
	if n := len(r.seen()); n > maxSearches+1 {
		t.Errorf("%d requests, want at most %d", n, maxSearches+1)
	}
	if !strings.HasPrefix(got, "ppp") || !strings.HasSuffix(got, "rrr") || strings.Trim(got, "pr") != "" {
		t.Errorf("results %s, want some permanent and the rest released", got)
	}
}

func TestG10_SearchEndsWhenTheReceiverGoesAway(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.setAnswer(func(http.ResponseWriter, *http.Request, []adaptertest.Received) int {
		if len(r.seen()) == 1 {
			return 422
		}
		return 503
	})
	d := destination(t, Config{URL: r.URL})
	msgs := []*message.Message{newMessage("1", "a"), newMessage("2", "b"), newMessage("3", "a"), newMessage("4", "b")}
	if got := kinds(4, d.Deliver(t.Context(), r.URL, msgs)); got != "uurr" {
		t.Errorf("results %s, want uurr", got)
	}
	if n := len(r.seen()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}
