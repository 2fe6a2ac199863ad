package assembly

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/outriderhq/outrider/adapters"
	logto "github.com/outriderhq/outrider/adapters/log"
	"github.com/outriderhq/outrider/config"
)

// meeting is a destination whose check ends when those of all others have begun.
type meeting struct {
	adapters.Destination
	all *sync.WaitGroup
}

func (m meeting) Check(ctx context.Context) error {
	m.all.Done()
	met := make(chan struct{})
	go func() { m.all.Wait(); close(met) }()
	select {
	case <-met:
		return errors.New("not there")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestDestinationsAreCheckedSideBySide: one that does not answer keeps no other one
// waiting, and none keeps the relay from being built.
func TestDestinationsAreCheckedSideBySide(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("t", []byte(`
state: {url: "sqlite:`+filepath.Join(t.TempDir(), "state.db")+`"}
sources: {app: {type: subscriber, topic: t}}
destinations: {a: {type: publisher, topic: a}, b: {type: publisher, topic: b}, c: {type: publisher, topic: c}}
routes: {one: {from: app, to: a}, two: {from: app, to: b}, three: {from: app, to: c}}
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	all := &sync.WaitGroup{}
	options := OptionsOf(nil)
	options.Subscribers["app"] = gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	for _, name := range []string{"a", "b", "c"} {
		all.Add(1)
		options.Destinations[name] = func(*config.Publisher) (adapters.Destination, error) { return meeting{logto.Discard(), all}, nil }
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := NewBuilder(cfg, options).Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil || len(p.Routes) != 3 {
		t.Errorf("%d routes, after waiting: %v", len(p.Routes), ctx.Err())
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Errors of what is checked come in the order of the configuration, however long
// each took.
func TestChecksReportInOrder(t *testing.T) {
	t.Parallel()
	var c checks
	first, second, began := errors.New("first"), errors.New("second"), make(chan struct{})
	c.start(func() error { <-began; return first })
	c.start(func() error { return nil })
	c.start(func() error { close(began); return second })
	if got := errors.Join(c.wait()...); got == nil || got.Error() != "first\nsecond" {
		t.Errorf("got %v", got)
	}
	if got := (&checks{}).wait(); len(got) != 0 {
		t.Errorf("no checks found %v", got)
	}
}

func TestRedactURLShowsTables(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://127.0.0.1:5432/app public.river_job": "postgres://127.0.0.1:5432/app public.river_job",
		`postgres://h:1/app "a b".c, d`:                  `postgres://h:1/app "a b".c, d`,
		"https://user:secret@h/in?key=secret":            "https://%2A%2A%2A@h/in?***",
		"https://h/in?key=a secret":                      "https://h/in?***",
		"postgres://user:a secret@h/app t":               "(an address that is no valid URL)",
		"orders":                                         "orders",
	} {
		if got := RedactURL(address); got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}
