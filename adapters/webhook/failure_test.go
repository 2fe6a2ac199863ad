package webhook

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

func TestG10_StatusTable(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]outbox.Kind{
		300: outbox.KindUnavailable, 301: outbox.KindUnavailable, 302: outbox.KindUnavailable, 307: outbox.KindUnavailable,
		400: outbox.KindTransient, 401: outbox.KindUnavailable, 403: outbox.KindUnavailable, 404: outbox.KindUnavailable,
		408: outbox.KindTransient, 409: outbox.KindPermanent, 410: outbox.KindGone, 413: outbox.KindPermanent,
		422: outbox.KindPermanent, 429: outbox.KindUnavailable, 500: outbox.KindTransient, 502: outbox.KindUnavailable,
		503: outbox.KindUnavailable, 504: outbox.KindUnavailable,
	} {
		d := answering(t, Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		err := one(t, d, newMessage("1", "g"))
		if err == nil || outbox.KindOf(err) != want || !strings.Contains(err.Error(), strconv.Itoa(status)) {
			t.Errorf("status %d: %v (%v), want %v", status, err, outbox.KindOf(err), want)
		}
	}
	cfg := Config{Statuses: map[int]outbox.Kind{400: outbox.KindPermanent, 418: outbox.KindSkip}, Accept: []int{409}}
	for status, want := range map[int]outbox.Outcome{
		200: outbox.OutcomeDelivered, 201: outbox.OutcomeDelivered, 202: outbox.OutcomeDelivered, 204: outbox.OutcomeDelivered,
		409: outbox.OutcomeDelivered, 400: outbox.OutcomeDead, 418: outbox.OutcomeSkipped, 410: outbox.OutcomeUnavailable,
	} {
		d := answering(t, cfg, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if v := outbox.VerdictOf(one(t, d, newMessage("1", "g"))); v.Outcome != want || v.Gone != (status == 410) {
			t.Errorf("status %d: %v, want %v", status, v, want)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		d := answering(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/in" {
				t.Error("a redirect was followed")
			}
			w.Header().Set("Location", "http://me:SECRET@169.254.169.254/elsewhere?key=SECRET")
			w.WriteHeader(status)
		})
		err := one(t, d, newMessage("1", "g"))
		if outbox.KindOf(err) != outbox.KindUnavailable || !strings.Contains(err.Error(), "http://169.254.169.254/elsewhere") ||
			!strings.Contains(err.Error(), "not followed") || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("status %d: %v, want one that names where the endpoint went, without the query", status, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 503, 500, 400} {
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
		if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), url) {
			t.Errorf("%s: Check = %v, want an error that names the endpoint", name, err)
		}
	}
	roots := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	trusting := destination(t, Config{URL: secure.URL, TLS: &tls.Config{RootCAs: roots}})
	if err := one(t, trusting, newMessage("1", "g")); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a receiver that is trusted: %v, want its answer", err)
	}
	for _, d := range []*Destination{trusting, destination(t, Config{URL: plain.URL})} {
		if err := d.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownOutcomeIsTransient(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	}
	cut := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	}
	for name, d := range map[string]*Destination{
		"no answer in time": answering(t, Config{Timeout: time.Second}, hang),
		"connection cut":    answering(t, Config{}, cut),
	} {
		if err := one(t, d, newMessage("1", "g")); outbox.KindOf(err) != outbox.KindTransient {
			t.Errorf("%s: %v (%v), want transient", name, err, outbox.KindOf(err))
		}
	}
	d := answering(t, Config{}, hang)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	errs := d.Deliver(ctx, d.cfg.URL, []*message.Message{newMessage("1", "g")})
	if outbox.KindOf(errs[0]) != outbox.KindTransient {
		t.Errorf("the caller's deadline: %v (%v), want transient", errs[0], outbox.KindOf(errs[0]))
	}
}

// An answer that has come counts, whatever becomes of the rest of it.
func TestASuccessWithAnEndlessAnswerIsDelivered(t *testing.T) {
	t.Parallel()
	d := answering(t, Config{Timeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "ok")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if err := one(t, d, newMessage("1", "g")); err != nil {
		t.Errorf("%v, want it delivered", err)
	}
}

// While one receiver takes requests and does not answer, others of the same
// destination get theirs.
func TestG6_ASlowReceiverLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	d := answering(t, Config{URL: "/{{.Group}}", MaxRequests: 4}, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			<-release
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var slow sync.WaitGroup
	for i := range 8 { // more than a route would send, as of two routes
		slow.Go(func() {
			if err := one(t, d, newMessage(strconv.Itoa(i), "slow")); outbox.KindOf(err) != outbox.KindUnavailable {
				t.Errorf("the slow one: %v", err)
			}
		})
	}
	for i := range 100 {
		if err := one(t, d, newMessage(strconv.Itoa(i), "quick")); err != nil {
			t.Errorf("a quick one: %v", err)
		}
	}
	close(release)
	slow.Wait()
}

func TestG2_NothingBehindAFailureIsSent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.reject("2")
	d := destination(t, Config{URL: r.URL})
	errs := d.Deliver(t.Context(), r.URL, []*message.Message{newMessage("1", "g"), newMessage("2", "g"), newMessage("3", "g")})
	if errs == nil || errs[0] != nil || outbox.KindOf(errs[1]) != outbox.KindPermanent || outbox.KindOf(errs[2]) != outbox.KindReleased {
		t.Errorf("errors %v, want delivered, permanent, released", errs)
	}
	if n := len(r.seen()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}
