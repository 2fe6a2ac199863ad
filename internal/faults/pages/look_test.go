package pages

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/outriderhq/outrider/internal/testenv"
)

// shop are the events and routes of the pages that are looked at.
const (
	shopDestinations = `  search: {type: webhook, url: "RECEIVER/search", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], allow_private: true}
  billing: {type: webhook, url: "RECEIVER/billing", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], allow_private: true}
  crm: {type: webhook, url: "RECEIVER/crm", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], allow_private: true}
  partners: {type: webhook, url: "RECEIVER/partners/{{.Tenant}}", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], allow_private: true}
  warehouse: {type: webhook, url: "RECEIVER/warehouse", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], allow_private: true}
`
	shopRoutes = `  search-index: {from: app, to: search, match: {types: ["*"]}}
  billing: {from: app, to: billing, match: {types: ["invoice.*"]}}
  crm: {from: app, to: crm, match: {types: ["customer.*"]}, middleware: [{poison: {then: hold}}, {retry: {attempts: 1}}]}
  partners: {from: app, to: partners, match: {types: ["order.*"]}}
  warehouse: {from: app, to: warehouse, match: {types: ["order.*"]}, middleware: [poison, {retry: {attempts: 50, base: 30s, max: 2m}}]}
  audit-trail: {from: app, to: search, match: {types: ["login.*"]}}
`
)

// newShop is a scene with something of everything: a held group, dead and retrying
// messages, an address that is gone and one that does not answer, a paused route.
func newShop(t *testing.T, access string) *scene {
	t.Helper()
	s := newScene(t, access, shopDestinations, shopRoutes)
	s.rule("XTS", http.StatusUnprocessableEntity)
	s.rule("/partners/acme", http.StatusGone)
	s.rule("pallet-9", http.StatusInternalServerError)
	for i := range 4 {
		s.publish(event{fmt.Sprintf("cus-%d", 4100+i), "customer.changed", "", "customer-4711", `{"customer": {"id": 4711, "name": "Heron Ltd", "currency": "XTS"}}`})
	}
	for i := range 7 {
		s.publish(event{fmt.Sprintf("inv-%d", 880+i), "invoice.issued", "", fmt.Sprintf("account-%d", i), `{"invoice": {"total": 129.5, "currency": "XTS", "lines": [{"sku": "K-7", "count": 2}]}}`})
	}
	for i, tenant := range []string{"acme", "acme", "globex", "initech", "globex"} {
		s.publish(event{fmt.Sprintf("ord-%d", 31002+i), "order.created", tenant, fmt.Sprintf("order-%d", 31002+i), `{"order": {"total": 42}}`})
	}
	for i := range 3 {
		s.publish(event{fmt.Sprintf("ord-%d", 31050+i), "order.packed", "globex", "order-31050", `{"order": {"pallet": "pallet-9"}}`})
	}
	return s
}

// everyPage are the pages of the shop by name.
func everyPage(t *testing.T, b *tab) map[string]string {
	t.Helper()
	b.open("/parked?route=billing&status=dead")
	message := eval[string](b, `new URL(document.querySelector("main tbody a").href).pathname`)
	return map[string]string{
		"overview": "/", "route": "/route/crm", "parked": "/parked", "filtered": "/parked?route=billing&status=dead&error=currency", "message": message + "?payload=show",
		"failures": "/failures", "groups": "/groups", "destinations": "/destinations", "instances": "/instances", "event": "/event?id=inv-882", "no-event": "/event?id=none",
		"tail": "/tail", "operations": "/operations", "doctor": "/doctor?run=now", "retention": "/retention", "audit": "/audit", "config": "/config", "missing": "/nothing", "purge": "/confirm?action=purge&route=billing&status=dead",
		"seek": "/confirm?action=seek&route=crm&to=beginning", "redrive": "/confirm?action=redrive&route=crm&status=held",
		"rebase": "/confirm?action=rebase&route=crm&force=yes", "forget": "/confirm?action=forget&route=crm", "paused-route": "/route/audit-trail", "remove": "/confirm?action=remove-instance&instance=relay-1",
	}
}

// Every page has names for what is in it, headings in order, contrast, and fits a phone,
// light and dark; a brief run checks every other page in light and the rest in dark.
func TestEveryPageIsAccessible(t *testing.T) {
	t.Parallel()
	s := newShop(t, "anonymous: admin")
	b := newTab(t, s.base)
	b.until("the shop has its troubles", func() bool {
		return s.parked("billing", "dead") == 7 && s.parked("crm", "held") == 1 && s.parked("crm", "waiting") == 3 && s.parked("warehouse", "retrying") > 0
	})
	b.open("/route/audit-trail")
	b.fill("reason", "moves to another cluster at 16:00")
	b.click("Pause audit-trail")
	b.see("Paused route audit-trail")
	b.seeAt("/", "need attention", "paused")
	pages := everyPage(t, b)
	looks := []struct {
		theme string
		width int64
	}{{"light", 1280}, {"dark", 360}}
	for i, name := range slices.Sorted(maps.Keys(pages)) {
		path, these := pages[name], looks
		if !testenv.Full() {
			these = looks[i%2 : i%2+1]
		}
		for _, look := range these {
			theme, width := look.theme, look.width
			b.theme(theme)
			b.size(width, 800)
			b.open(path)
			if name == "route" {
				b.until("the charts are drawn", func() bool { return eval[bool](b, `document.documentElement.dataset.charts === "drawn"`) })
			}
			b.accessible(fmt.Sprintf("%s, %s, %d wide", name, theme, width))
		}
	}
}

// A caller that may only look learns from the chip at the top how to act, and sees what leads to a destination of dead messages.
func TestAReadOnlyPageSaysHowToAct(t *testing.T) {
	t.Parallel()
	s := newScene(t, "anonymous: read", fmt.Sprintf(hooks, "crm", "crm")+fmt.Sprintf(hooks, "dead-letters", "dead"),
		"  crm: {from: app, to: crm, middleware: [{poison: {to: dead-letters}}, retry]}\n")
	b := newTab(t, s.base)
	for theme, width := range map[string]int64{"light": 1280, "dark": 360} {
		b.theme(theme)
		b.size(width, 800)
		b.open("/destinations")
		b.see("dead messages of crm", "from crm")
		b.clickIn("header summary", "read-only")
		b.see("Pausing, retrying and skipping need the role operate: set admin: {anonymous: operate} in the configuration")
		b.accessible(fmt.Sprintf("the hint, %s, %d wide", theme, width))
	}
}

// A page refreshes its live parts, but not while it is hidden or paused. A user's
// input stays.
func TestPagesRefreshWhatIsLive(t *testing.T) {
	t.Parallel()
	s := newScene(t, "anonymous: read", fmt.Sprintf(hooks, "crm", "crm"), `  crm: {from: app, to: crm}`+"\n")
	b := newTab(t, s.base)
	b.open("/tail")
	eval[bool](b, `document.getElementById("list").dataset.live = "1"; true`) // seconds
	b.fill("types", "customer.*")
	s.publish(event{"c-7", "customer.changed", "", "customer-1", `{}`})
	b.see("c-7")
	if typed := eval[string](b, `document.querySelector("main [name=types]").value`); typed != "customer.*" {
		t.Errorf("the field has %q", typed)
	}
	requests := func() int {
		return eval[int](b, `performance.getEntriesByType("resource").filter(e => e.initiatorType === "fetch").length`)
	}
	b.click("Pause updates")
	b.see("Resume updates")
	paused := requests()
	s.publish(event{"c-8", "customer.changed", "", "customer-1", `{}`})
	// Two seconds by the page's own clock, in which a page that is live asks once or twice.
	eval[bool](b, `new Promise(done => setTimeout(() => done(true), 2200))`, chromedp.EvalAwaitPromise)
	if n := requests(); n != paused {
		t.Errorf("a paused page asked %d times", n-paused)
	}
	b.click("Resume updates")
	b.see("c-8")
	eval[bool](b, `Object.defineProperty(document, "hidden", {configurable: true, get: () => true}); true`)
	b.until("nothing is being fetched", func() bool {
		before := requests()
		eval[bool](b, `new Promise(done => setTimeout(() => done(true), 1500))`, chromedp.EvalAwaitPromise)
		return requests() == before
	})
	s.publish(event{"c-9", "customer.changed", "", "customer-1", `{}`})
	hidden := requests()
	eval[bool](b, `new Promise(done => setTimeout(() => done(true), 2200))`, chromedp.EvalAwaitPromise)
	if n := requests(); n != hidden {
		t.Errorf("a hidden page asked %d times", n-hidden)
	}
	eval[bool](b, `delete document.hidden; document.dispatchEvent(new Event("visibilitychange")); true`)
	b.see("c-9")
}

// The pictures of docs/dashboard.md: go test -run Pictures -pictures ../../../docs/dashboard
// -for 15m ./internal/faults/pages
func TestPictures(t *testing.T) {
	t.Parallel()
	if *pictures == "" {
		t.Skip("only with -pictures FOLDER")
	}
	s := newShop(t, "anonymous: admin")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		live(ctx, s)
	}()
	defer func() { cancel(); <-ended }()
	<-time.After(*picturesAfter)
	// At the end one address is down, for the overview.
	s.rule("/partners/hooli", http.StatusServiceUnavailable)
	b := newTab(t, s.base)
	b.open("/route/audit-trail")
	b.fill("reason", "moves to another cluster at 16:00")
	b.click("Pause audit-trail")
	b.see("Paused route audit-trail")
	pages := everyPage(t, b)
	for _, name := range []string{"overview", "route", "parked", "message", "failures", "groups", "destinations", "purge", "tail", "event", "audit", "instances", "operations", "doctor", "retention", "config", "rebase", "forget", "seek", "remove"} {
		path, ok := pages[name]
		if !ok {
			continue
		}
		for _, theme := range []string{"light", "dark"} {
			b.theme(theme)
			for device, size := range map[string][2]int64{"wide": {1280, 860}, "phone": {360, 780}} {
				b.size(size[0], size[1])
				b.open(path)
				switch name {
				case "overview":
					b.untilAt(path, "something was delivered lately", func() bool { return eval[bool](b, `parseFloat(document.querySelector(".tiles dd").textContent) > 0`) })
				case "route":
					b.until("the charts are drawn", func() bool { return eval[bool](b, `document.documentElement.dataset.charts === "drawn"`) })
				}
				b.picture(fmt.Sprintf("%s/%s-%s-%s.png", *pictures, name, device, theme))
			}
		}
	}
}

// live writes orders until ctx ends, in busier and quieter minutes.
func live(ctx context.Context, s *scene) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-tick.C
		var events []event
		busy := 12 + 8*(i/45%3) + i%7
		for n := range busy {
			at := strconv.Itoa(i*100 + n)
			typ := []string{"order.created", "order.packed", "invoice.paid", "customer.changed", "login.succeeded"}[n%5]
			events = append(events, event{"", typ, []string{"globex", "initech", "hooli"}[n%3], typ[:4] + "-" + at, `{"at": ` + at + `}`})
		}
		s.publish(events...)
		switch i % 180 {
		case 60:
			s.rule("/search", http.StatusServiceUnavailable)
		case 68:
			s.rule("/search", 0)
		case 100:
			s.rule("/partners/initech", http.StatusInternalServerError)
		case 112:
			s.rule("/partners/initech", 0)
		}
	}
}
