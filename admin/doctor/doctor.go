package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Diagnosis is one finding of [Doctor].
type Diagnosis struct {
	Part string // of the configuration: "source app", "destination bus", "state", "route orders", "process"
	adapters.Finding
}

// Doctor examines everything that the configuration needs, the relay running or
// not. It changes nothing, and sends nothing that a receiver would take for a
// message.
func Doctor(ctx context.Context, cfg *config.Config, opts ...operate.Option) []Diagnosis {
	return Examine(ctx, cfg, assembly.OptionsOf(opts))
}

// Examine is [Doctor] with options that were read before.
func Examine(ctx context.Context, cfg *config.Config, options assembly.Options) []Diagnosis {
	d := &doctor{cfg: cfg, build: assembly.NewBuilder(cfg, options)}
	for _, w := range cfg.Warnings {
		d.add("config", adapters.Finding{Level: adapters.LevelWarning, Subject: "file", Text: w.Error(), Fix: w.Hint})
	}
	if len(cfg.Warnings) == 0 {
		d.add("config", adapters.Finding{Subject: "file", Text: "valid"})
	}
	for _, name := range assembly.SortedNames(cfg.Sources) {
		d.source(ctx, name)
	}
	if d.states(ctx) {
		d.routes(ctx)
	}
	for _, name := range assembly.SortedNames(cfg.Destinations) {
		d.destination(ctx, name)
	}
	d.process(ctx)
	return d.found
}

type doctor struct {
	cfg   *config.Config
	build *assembly.Builder
	found []Diagnosis
}

// broken reports whether something is broken of a part: what rests on it would fail for the same reason.
func (d *doctor) broken(part string) bool {
	return slices.ContainsFunc(d.found, func(f Diagnosis) bool { return f.Part == part && f.Level == adapters.LevelBroken })
}

func (d *doctor) add(part string, findings ...adapters.Finding) {
	for _, f := range findings {
		d.found = append(d.found, Diagnosis{part, f})
	}
}

// source examines a source. That it cannot be checked is no reason not to look.
func (d *doctor) source(ctx context.Context, name string) {
	part := "source " + name
	k := d.build.Source(name)
	if k.Supplied {
		d.add(part, adapters.Finding{Level: adapters.LevelUnknown, Subject: "subscriber", Text: "only the program that supplies it can tell"})
		return
	}
	p := &assembly.Parts{}
	defer func() { _ = p.Close() }() // nothing was written
	f, err := d.build.CheckedFeed(ctx, p, name)
	switch {
	case f.Queue != nil:
		d.add(part, f.Queue.Examine(ctx)...)
		if !d.broken(part) {
			d.add(part, d.unmatched(ctx, name, f.Queue)...)
		}
	case f.Source != nil:
		d.add(part, f.Source.Examine(ctx)...)
	case err != nil:
		d.add(part, adapters.FindingsOf("table", err)...)
	default:
		d.add(part, adapters.Finding{Subject: "table", Text: "as it should be"})
	}
	d.add(part, d.retention(ctx, name, k.Retention, f)...)
}

// sampled is how many waiting rows of a queue's table are examined.
const sampled = 1000

// unmatched looks for rows of a queue that stay because no route matches them.
func (d *doctor) unmatched(ctx context.Context, source string, queue adapters.OperatorQueue) []adapters.Finding {
	const subject = "rows without a route"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rows, err := queue.Waiting(ctx, sampled)
	if err != nil {
		return []adapters.Finding{{Level: adapters.LevelUnknown, Subject: subject, Text: err.Error()}}
	}
	types := map[string]int{}
	none := 0
	for i := range rows {
		if !slices.ContainsFunc(d.cfg.Routes, func(r config.Route) bool { return r.From == source && assembly.Matcher(r.Match)(&rows[i]) }) {
			none++
			types[rows[i].Type]++
		}
	}
	if none == 0 {
		return []adapters.Finding{{Subject: subject, Text: fmt.Sprintf("none among %d waiting rows examined", len(rows))}}
	}
	return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject,
		Text: fmt.Sprintf("%d of %d waiting rows examined match no route and stay; their types: %s",
			none, len(rows), strings.Join(assembly.SortedNames(types)[:min(len(types), 5)], ", ")),
		Fix: "add a route that matches them, or one without `match` as the last of the source"}}
}

// states examines the state stores; it reports whether all could be reached and
// are of use.
func (d *doctor) states(ctx context.Context) bool {
	seen := map[string]bool{}
	usable := true
	for _, r := range d.cfg.Routes {
		k, err := d.build.StateOf(r.From)
		if err != nil {
			d.add("state", adapters.FindingsOf("route "+r.Name, err)...)
			usable = false
			continue
		}
		if seen[k.Key] {
			continue
		}
		seen[k.Key] = true
		part := "state"
		if d.cfg.State.URL.IsZero() {
			part = "state beside " + r.From
		}
		before := len(d.found)
		d.state(ctx, part, k)
		for _, f := range d.found[before:] {
			asGood := f.Level == adapters.LevelOK || f.Level == adapters.LevelWarning && f.Subject != "state tables"
			usable = usable && asGood
		}
	}
	return usable
}

func (d *doctor) state(ctx context.Context, part string, k assembly.StateKind) {
	err := k.Exists()
	var s adapters.OperatorStore
	if err == nil {
		s, err = k.Open(ctx)
	}
	if err != nil {
		d.notReached(part, err)
		return
	}
	defer func() { _ = s.Close() }() // nothing was written
	d.add(part, s.Examine(ctx)...)
}

// notReached reports a state store or a destination that cannot be reached: once, where a source's
// database is away as well.
func (d *doctor) notReached(part string, err error) {
	if text, fix, ok := assembly.ConnectionProblem(err); ok {
		for _, f := range d.found {
			if f.Subject == "connection" && f.Text == text {
				d.add(part, adapters.Finding{Level: adapters.LevelUnknown, Subject: "connection", Text: "not reached either, see " + f.Part})
				return
			}
		}
		d.add(part, adapters.Finding{Level: adapters.LevelBroken, Subject: "connection", Text: text, Fix: fix})
		return
	}
	d.add(part, adapters.FindingsOf("connection", err)...)
}

// routes reports how far each route is behind, and what is paused.
func (d *doctor) routes(ctx context.Context) {
	op, err := operate.OperatorOf(ctx, d.build)
	if err != nil {
		d.add("routes", adapters.FindingsOf("state", err)...)
		return
	}
	defer func() { _ = op.Close() }() // nothing was written
	d.progress(ctx, op)
	pauses, err := op.Pauses(ctx)
	if err != nil {
		d.add("routes", adapters.FindingsOf("pauses", err)...)
	}
	for _, r := range d.cfg.Routes {
		part := "route " + r.Name
		for _, p := range pauses {
			if p.Route == r.Name {
				d.add(part, paused(p))
			}
		}
		if source := "source " + r.From; d.broken(source) {
			d.add(part, adapters.Finding{Level: adapters.LevelUnknown, Subject: "cursor and lag", Text: "not looked at, see " + source})
			continue
		}
		if d.build.Source(r.From).Log {
			d.add(part, op.ExamineCursors(ctx, r.Name)...)
		}
		d.add(part, d.lag(ctx, op, r.Name))
	}
}

func paused(p adapters.Pause) adapters.Finding {
	f := adapters.Finding{Level: adapters.LevelWarning, Subject: "pause", Fix: "outrider resume " + p.Route}
	f.Text = fmt.Sprintf("paused by %s since %s", p.By, p.At.UTC().Format(time.RFC3339))
	if p.Address != "" {
		address := assembly.RedactURL(p.Address)
		f.Text = fmt.Sprintf("address %s is not used since %s", address, p.At.UTC().Format(time.RFC3339))
		f.Fix += " --address " + strconv.Quote(address)
	}
	if p.Reason != "" {
		f.Text += ": " + p.Reason
	}
	return f
}

func (d *doctor) lag(ctx context.Context, op *operate.Operator, route string) adapters.Finding {
	b, err := op.Lag(ctx, route)
	f := adapters.Finding{Subject: "lag"}
	switch {
	case err != nil:
		f.Level, f.Text = adapters.LevelUnknown, err.Error()
	case b.Rows == 0:
		f.Text = "nothing is waiting to be read"
	default:
		f.Text = strconv.Itoa(b.Rows) + " rows are not settled"
		if b.Rows == 1 {
			f.Text = "1 row is not settled"
		}
		if b.More {
			f.Text = "more than " + f.Text
		}
		if !b.Oldest.IsZero() {
			f.Text += ", the oldest from " + b.Oldest.UTC().Format(time.RFC3339)
		}
	}
	return f
}

// destination examines a destination.
func (d *doctor) destination(ctx context.Context, name string) {
	part := "destination " + name
	k := d.build.Destination(name)
	switch {
	case k.Supplied != "" && k.Open == nil:
		d.add(part, adapters.Finding{Level: adapters.LevelUnknown, Subject: d.cfg.Destinations[name].Kind(), Text: "only the program that supplies it can tell"})
	case k.Examine != nil:
		d.examine(ctx, part, k.Examine)
	case k.Open != nil:
		d.examine(ctx, part, k.Open)
	default:
		d.add(part, adapters.FindingsOf("settings", assembly.NotBuiltIn(d.cfg.Destinations[name]))...)
	}
}

func (d *doctor) examine(ctx context.Context, part string, open func() (adapters.Destination, error)) {
	dest, err := open()
	if err != nil {
		d.add(part, adapters.FindingsOf("settings", err)...)
		return
	}
	defer func() { _ = dest.Close() }() // nothing was sent
	if examiner, ok := dest.(adapters.Examiner); ok {
		d.add(part, examiner.Examine(ctx)...)
		return
	}
	checker, ok := dest.(adapters.Checker)
	if !ok {
		d.add(part, adapters.Finding{Subject: "settings", Text: "valid; there is nothing to reach"})
		return
	}
	err = checker.Check(ctx)
	if _, _, away := assembly.ConnectionProblem(err); away {
		d.notReached(part, err)
		return
	}
	if err != nil {
		d.add(part, adapters.FindingsOf("check", err)...)
		return
	}
	d.add(part, adapters.Finding{Subject: "check", Text: "passed"})
}

// process examines the limits of this host.
func (d *doctor) process(ctx context.Context) {
	d.add("process", memoryFinding(int64(d.cfg.Memory), len(d.cfg.Routes), memoryLimit()))
	if !d.cfg.Admin.Enabled() {
		return
	}
	dialing, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(dialing, "tcp", d.cfg.Admin.Listen)
	if err != nil {
		d.add("process", adapters.Finding{Subject: "admin address " + d.cfg.Admin.Listen, Text: "nothing listens there: no relay runs on this host, or its config has another address"})
		return
	}
	_ = conn.Close() // nothing was sent
	d.add("process", adapters.Finding{Subject: "admin address " + d.cfg.Admin.Listen, Text: "something listens there, a relay it seems"})
}
