package assembly

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	logto "github.com/outriderhq/outrider/adapters/log"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// Options that do not fit the configuration, and what they have to supply and do not, are reported together.
func TestOptionsFitTheConfiguration(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("t", []byte(`
state: {url: s.db}
sources: {sub: {type: subscriber, topic: t}, app: {type: sqlite, path: a.db}}
destinations: {pub: {type: publisher}, lis: {type: listeners}, log: {type: log}}
routes: {one: {from: sub, to: pub}, two: {from: app, to: lis}, three: {from: app, to: log}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	give := func(o *Options) {
		o.Destinations["pub"] = func(*config.Publisher) (adapters.Destination, error) { return logto.Discard(), nil }
		o.Listeners["lis"] = func(int) (adapters.Destination, error) { return logto.Discard(), nil }
		o.Subscribers["sub"] = gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	}
	for name, test := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"all":                 {give, nil},
		"nothing":             {func(*Options) {}, []string{`outrider.WithDestination("pub"`, `outrider.WithListeners("lis"`, `outrider.WithSource("sub"`}},
		"an unknown route":    {func(o *Options) { give(o); o.Middleware["four"] = []middleware.Layer{} }, []string{`WithMiddleware("four")`}},
		"a destination":       {func(o *Options) { give(o); o.Destinations["log"] = o.Destinations["pub"] }, []string{`WithDestination("log")`}},
		"listeners":           {func(o *Options) { give(o); o.Listeners["pub"] = o.Listeners["lis"] }, []string{`WithListeners("pub")`}},
		"a source":            {func(o *Options) { give(o); o.Subscribers["app"] = o.Subscribers["sub"] }, []string{`WithSource("app")`}},
		"a pool":              {func(o *Options) { give(o); o.Pools["app"] = &pgxpool.Config{} }, []string{`WithPool("app")`}},
		"a pool of the state": {func(o *Options) { give(o); o.StatePool = &pgxpool.Config{} }, []string{"WithStatePool"}},
		"nil":                 {func(o *Options) { give(o); var p message.Publisher; o.Require("WithX", p) }, []string{"WithX: it was given nil"}},
		"a nil pointer":       {func(o *Options) { give(o); o.Require("WithY", (*int)(nil)) }, []string{"WithY: it was given nil"}},
	} {
		o := OptionsOf([]Option{test.change})
		err := o.Check(cfg)
		if (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range test.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v lacks %s", name, err, part)
			}
		}
		if err != nil && strings.Count(err.Error(), "\n") != len(test.want)-1 {
			t.Errorf("%s: %v has more than %v", name, err, test.want)
		}
	}
	if OptionsOf([]Option{func(o *Options) { o.Logger = nil }}).Logger == nil {
		t.Error("no logger")
	}
}

// closer is a destination whose Close does what a program's may do.
type closer struct {
	adapters.Destination
	close func() error
}

func (c closer) Close() error { return c.close() }

func TestClosingEndsWhateverAProgramSupplies(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	defer close(hangs)
	broken := errors.New("broken")
	p := &Parts{destinations: map[string]adapters.Destination{
		"fine":   closer{close: func() error { return nil }},
		"broken": closer{close: func() error { return broken }},
		"panics": closer{close: func() error { panic("no") }},
		"hangs":  closer{close: func() error { <-hangs; return nil }},
	}}
	began := time.Now()
	err := p.CloseWithin(0)
	if took := time.Since(began); took < leastClosing || took > time.Minute {
		t.Errorf("took %v", took)
	}
	if !errors.Is(err, broken) {
		t.Errorf("%v lacks the error of a Close", err)
	}
	for _, part := range []string{"destination hangs: its Close did not return", "close destination panics"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v lacks %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "fine") {
		t.Errorf("%v names what was closed", err)
	}
	if err := (&Parts{}).Close(); err != nil {
		t.Error(err)
	}
}

func TestStatusesAndNetworks(t *testing.T) {
	t.Parallel()
	kinds, accept, err := statusTable(map[config.StatusCode]config.StatusAction{
		409: config.StatusDelivered, 410: config.StatusGone, 422: config.StatusSkip, 429: config.StatusUnavailable, 400: config.StatusPermanent, 500: config.StatusTransient})
	want := map[int]outbox.Kind{410: outbox.KindGone, 422: outbox.KindSkip, 429: outbox.KindUnavailable, 400: outbox.KindPermanent, 500: outbox.KindTransient}
	if err != nil || !reflect.DeepEqual(kinds, want) || !reflect.DeepEqual(accept, []int{409}) {
		t.Errorf("%v, %v, %v", kinds, accept, err)
	}
	if _, _, err := statusTable(map[config.StatusCode]config.StatusAction{400: "drop"}); err == nil {
		t.Error("an unknown action was taken")
	}
	networks, err := parseNetworks([]string{"10.0.0.0/8"}, nil)
	if err != nil || len(networks) != 2 || len(networks[1]) != 0 || networks[0][0] != netip.MustParsePrefix("10.0.0.0/8") {
		t.Errorf("%v, %v", networks, err)
	}
	if _, err := parseNetworks([]string{"10.0.0.0"}); err == nil {
		t.Error("an address was taken for a network")
	}
}

// A section that is not configured, or is of no kind that the program has, can do nothing.
func TestUnknownSections(t *testing.T) {
	t.Parallel()
	b := NewBuilder(&config.Config{Sources: map[string]config.Source{"nil": (*config.SQLite)(nil)}}, OptionsOf(nil))
	for _, name := range []string{"none", "nil"} {
		if k := b.Source(name); k.Open != nil || k.Init != nil {
			t.Errorf("source %s can do something", name)
		}
		if _, err := b.Feed(t.Context(), &Parts{}, name); err == nil {
			t.Errorf("source %s was opened", name)
		}
	}
	if _, err := b.buildDestination(context.Background(), &Parts{}, "none"); err == nil || err.Error() != "it is not in the configuration" {
		t.Error(err)
	}
	if err := NotBuiltIn(&config.Discard{}); err.Error() != `type "discard" is not built into this program` {
		t.Error(err)
	}
}

func TestPollsOfFeeds(t *testing.T) {
	t.Parallel()
	poll := config.Poll{Batch: 100, Min: config.Duration(time.Second), After: 2, Factor: 3, Max: config.Duration(time.Minute)}
	for tables, batch := range map[int]int{0: 100, 1: 100, 2: 200} {
		f := Feed{tables: tables}
		if got := f.pollOf(poll); got.Batch != batch || got.Min != time.Second || got.Max != time.Minute || got.After != 2 || got.Factor != 3 {
			t.Errorf("%d tables: %+v", tables, got)
		}
	}
	if f := (Feed{subscriber: gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})}); f.Repollable() {
		t.Error("a subscriber polls by itself")
	}
	if p := routePollOf(nil); p.Min != 0 {
		t.Errorf("%+v", p)
	}
}
