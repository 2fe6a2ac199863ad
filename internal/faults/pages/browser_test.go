package pages

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	logs "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/outriderhq/outrider/internal/testenv"
)

// How the pictures of docs/dashboard.md are made.
var (
	pictures      = flag.String("pictures", "", "write the pictures of docs/dashboard.md to this folder")
	picturesAfter = flag.Duration("for", 15*time.Minute, "how long the relay works before the pictures are taken")
)

// axe checks a page for what keeps people out (https://github.com/dequelabs/axe-core).
//
//go:embed testdata/axe.js
var axe string

// chromium is the browser of all tests; each has a tab with cookies of its own.
var chromium struct {
	once   sync.Once
	ctx    context.Context
	cancel []context.CancelFunc
	err    error
}

func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	for _, cancel := range slices.Backward(chromium.cancel) {
		cancel()
	}
	os.Exit(status)
}

// startChromium starts it once. As root it has no sandbox: it shows our own pages only.
func startChromium(t *testing.T) context.Context {
	t.Helper()
	path := testenv.Chromium(t)
	chromium.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(time.Minute), chromedp.DisableGPU)
		if os.Geteuid() == 0 {
			options = append(options, chromedp.NoSandbox)
		}
		ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		chromium.cancel = append(chromium.cancel, cancel)
		chromium.ctx, cancel = chromedp.NewContext(ctx)
		chromium.cancel = append(chromium.cancel, cancel)
		chromium.err = chromedp.Do(chromium.ctx)
	})
	if chromium.err != nil {
		t.Fatalf("%s does not start: %v", path, chromium.err)
	}
	return chromium.ctx
}

// tab is a browser tab on the pages of a relay.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu   sync.Mutex
	said []string // errors of scripts, and what the Content-Security-Policy refused
}

// patience bounds each wait for a page.
const patience = 2 * time.Minute

// newTab opens a tab. At the end of the test no script of it may have failed.
func newTab(t *testing.T, base string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(startChromium(t), chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		if t.Failed() {
			b.picture(filepath.Join(os.TempDir(), "outrider-failed.png"))
		}
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.said {
			t.Error("the browser says: " + s)
		}
	})
	err := chromedp.Listen(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			b.said = append(b.said, ev.ExceptionDetails.Text+": "+ev.ExceptionDetails.Exception.Description)
		case *logs.EventEntryAdded:
			if ev.Entry.Level == logs.EntryLevelError && ev.Entry.Source != logs.EntrySourceNetwork {
				b.said = append(b.said, ev.Entry.Text)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b.size(1280, 900)
	return b
}

// do runs actions of chromedp.
func (t *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.t.Fatalf("%v; the page at %s says:\n%s", err, t.at(), t.text())
	}
}

func (t *tab) size(width, height int64) {
	t.t.Helper()
	t.do(chromedp.EmulateViewport(width, height))
}

// theme has pages be light or dark, as a system that wants that.
func (t *tab) theme(name string) {
	t.t.Helper()
	t.do(chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		_, err := cdp.Call(ctx, to, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	}))
}

// open opens a page.
func (t *tab) open(path string) {
	t.t.Helper()
	t.do(chromedp.Navigate(t.base + path))
}

// eval evaluates JavaScript.
func eval[T any](b *tab, script string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, options...))
	if err != nil {
		b.t.Fatalf("%s: %v", script[:min(len(script), 200)], err)
	}
	return v
}

func (t *tab) text() string {
	text, err := chromedp.Run(t.ctx, chromedp.Evaluate[string]("document.body ? document.body.innerText : ''"))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return text
}

func (t *tab) at() string {
	text, _ := chromedp.Run(t.ctx, chromedp.Evaluate[string]("location.href"))
	return text
}

// see waits until the page has texts.
func (t *tab) see(texts ...string) {
	t.t.Helper()
	t.until(fmt.Sprintf("the page says %q", texts), func() bool {
		page := t.text()
		for _, text := range texts {
			if !strings.Contains(page, text) {
				return false
			}
		}
		return true
	})
}

// seeAt opens a page again and again until it has texts.
func (t *tab) seeAt(path string, texts ...string) {
	t.t.Helper()
	t.untilAt(path, fmt.Sprintf("%s says %q", path, texts), func() bool {
		page := t.text()
		for _, text := range texts {
			if !strings.Contains(page, text) {
				return false
			}
		}
		return true
	})
}

// until waits for a condition.
func (t *tab) until(what string, ok func() bool) {
	t.t.Helper()
	t.look(50*time.Millisecond, what, ok)
}

// untilAt opens a page again and again until a condition holds there. A page costs a tenth of a second of processor time, and what
// is waited for takes seconds.
func (t *tab) untilAt(path, what string, ok func() bool) {
	t.t.Helper()
	t.look(400*time.Millisecond, what, func() bool {
		t.open(path)
		return ok()
	})
}

// look waits for a condition that is looked at so often.
func (t *tab) look(every time.Duration, what string, ok func() bool) {
	t.t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for limit := time.After(patience); !ok(); {
		select {
		case <-tick.C:
		case <-limit:
			t.t.Fatalf("not within %v: %s; the page at %s says:\n%s", patience, what, t.at(), t.text())
		}
	}
}

// clicks finds the first visible button or link whose text begins with another, in the part of the page that a selector names, clicks it
// where a mouse would hit it, and says whether it did: "" if there is none yet, else what comes of it. All of it is one step: a page
// that refreshes what is live in it replaces elements. A page that is left stays for a moment, so it is marked.
const clicks = `((within, text) => {
	if (window.left) return "";
	const found = [...document.querySelectorAll(within)].find(e => e.offsetParent !== null && e.textContent.trim().startsWith(text));
	if (!found) return "";
	found.scrollIntoView({block: "center", behavior: "instant"});
	const box = found.getBoundingClientRect(), hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
	if (!hit || !found.contains(hit)) return "";
	const leads = found.matches("a[href], form button");
	window.left = leads;
	found.click();
	return leads ? "another page" : "something here";
})(%q, %q)`

// click clicks the button or link whose text begins so. If that leads to another page, it returns when that page is there: until then
// the next click would find what the page before has.
func (t *tab) click(text string) {
	t.t.Helper()
	t.clickIn("main button, main a, .top button, nav a, summary", text)
}

// clickIn is [tab.click] for the buttons and links that a selector names.
func (t *tab) clickIn(within, text string) {
	t.t.Helper()
	var leads string
	t.until("there is "+text+" to click", func() bool {
		leads = eval[string](t, fmt.Sprintf(clicks, within, text))
		return leads != ""
	})
	if leads == "another page" {
		t.until("the page that "+text+" leads to is there", t.arrived)
	}
}

// arrived reports whether no page is being left. While one page follows another, scripts have nowhere to run.
func (t *tab) arrived() bool {
	there, err := chromedp.Run(t.ctx, chromedp.Evaluate[bool](`!window.left && document.readyState === "complete"`))
	return err == nil && there
}

// fill types into the field with a name.
func (t *tab) fill(name, text string) {
	t.t.Helper()
	t.do(chromedp.SendKeys(fmt.Sprintf("main [name=%q]", name), text))
}

// picture writes what the page looks like.
func (t *tab) picture(path string) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err = errors.Join(err, os.WriteFile(path, image, 0o600)); err != nil {
		t.t.Log(err)
	}
}

// violation is a finding of axe.
type violation struct {
	ID     string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// accessible runs axe in the page and reports what it finds, minor findings too.
func (t *tab) accessible(where string) {
	t.t.Helper()
	eval[bool](t, axe+"; true")
	found := eval[struct {
		Passes     int         `json:"passes"`
		Violations []violation `json:"violations"`
	}](t, `axe.run(document, {resultTypes: ["violations"]}).then(r => ({passes: r.passes.length, violations: r.violations}))`, chromedp.EvalAwaitPromise)
	if found.Passes < 10 {
		t.t.Errorf("%s: axe found only %d of its rules to hold", where, found.Passes)
	}
	for _, v := range found.Violations {
		for i, n := range v.Nodes {
			if i < 3 {
				t.t.Errorf("%s: %s (%s): %s\n%s\n%s", where, v.ID, v.Impact, v.Help, n.HTML, n.Summary)
			}
		}
	}
	if wide := eval[int](t, "Math.max(document.scrollingElement.scrollWidth, document.body.scrollWidth) - innerWidth"); wide > 0 {
		t.t.Errorf("%s: the page is %d pixels wider than the screen", where, wide)
	}
}
