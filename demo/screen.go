package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// How often the screen is drawn: a table in place, or a line each.
const (
	redrawEvery = 500 * time.Millisecond
	lineEvery   = time.Second
)

// screen shows the demo to people. Lines stay within 79 columns: a line that
// the terminal wraps could not be redrawn.
type screen struct {
	out   io.Writer
	to    string // where orders go; empty: to receivers by HTTP
	live  bool
	begin time.Time
	drawn int // lines of the table on the screen

	last     time.Time
	lastSeen map[string]int
}

// line is the line of a region in the table.
type line struct {
	region    string
	rate      float64 // arrivals per second
	committed int
	delivered int
	inFlight  int
	parked    int // groups
	down      int // addresses
}

func newScreen(out io.Writer, live bool) *screen {
	return &screen{out: out, live: live, begin: time.Now(), last: time.Now(), lastSeen: map[string]int{}}
}

// introduce describes the demo.
func (s *screen) introduce(length time.Duration, dashboard string) {
	end := "Ctrl-C ends the demo with a tally."
	if length > 0 {
		end = fmt.Sprintf("The shop closes after %v; then the demo prints the tally.", length)
	}
	way := fmt.Sprintf(`Outrider delivers the orders by HTTP to
receivers in %d regions, in order per account (the group). One customer's
endpoint fails for a while, and later the receiver of a whole region.`, len(regions))
	if s.to != "" {
		way = "Outrider delivers the orders to\n" + s.to + ",\nin order per account (the group), and reads them from there. They stay there."
	}
	fmt.Fprintf(s.out, `A shop commits orders into SQLite, each in one transaction with its outbox row;
one transaction in %d is rolled back. %s
Dashboard, where you may do everything: http://%s/
%s

`, rollbackOneIn, way, dashboard, end)
}

// display draws until ctx ends, and once more.
func (d *demo) display(ctx context.Context) error {
	every := lineEvery
	if d.screen.live {
		every = redrawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.screen.draw(d.lines(), *d.trouble.now.Load())
		case <-ctx.Done():
			if d.screen.live {
				d.screen.draw(d.lines(), *d.trouble.now.Load())
			}
			return nil
		}
	}
}

// lines collects the lines of the table: arrivals from the receivers, the rest from
// the relay's counters.
func (d *demo) lines() []line {
	passed := time.Since(d.screen.last).Seconds()
	d.screen.last = time.Now()
	stats := d.relay.Stats()
	out := make([]line, 0, len(regions))
	for _, g := range regions {
		// Delivered first: otherwise orders committed in between could make the
		// difference negative.
		l := line{region: g.name, delivered: d.ledger.deliveredTo(g.name)}
		l.committed = int(d.shop.byRegion[g.name].Load())
		l.rate = float64(l.delivered-d.screen.lastSeen[g.name]) / max(passed, 0.001)
		d.screen.lastSeen[g.name] = l.delivered
		for _, s := range stats {
			if s.Route == g.name {
				l.inFlight, l.parked, l.down = s.InFlight, s.ParkedNow, len(s.Down)
			}
		}
		out = append(out, l)
	}
	return out
}

func (s *screen) draw(lines []line, news string) {
	total := line{region: "all"}
	for _, l := range lines {
		total.rate += l.rate
		total.committed += l.committed
		total.delivered += l.delivered
		total.inFlight += l.inFlight
		total.parked += l.parked
		total.down += l.down
	}
	elapsed := time.Since(s.begin).Round(time.Second)
	if !s.live {
		fmt.Fprintf(s.out, "%4s  %4.0f/s  committed %d  delivered %d  lag %d  parked groups %d  down %d: %s\n",
			elapsed, total.rate, total.committed, total.delivered, max(0, total.committed-total.delivered),
			total.parked, total.down, news)
		return
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn) // up to the first line
	}
	table := []string{fmt.Sprintf("%-8s %8s %10s %10s %6s %10s %14s %6s",
		"region", "rate/s", "committed", "delivered", "lag", "in flight", "parked groups", "down")}
	for _, l := range append(lines, total) {
		table = append(table, fmt.Sprintf("%-8s %8.0f %10d %10d %6d %10d %14d %6d", l.region, l.rate,
			l.committed, l.delivered, max(0, l.committed-l.delivered), l.inFlight, l.parked, l.down))
	}
	table = append(table, "", fmt.Sprintf("%4s  %s", elapsed, news))
	for _, text := range table {
		b.WriteString(text + "\x1b[K\n") // and clear what an earlier line left
	}
	s.drawn = len(table)
	fmt.Fprint(s.out, b.String())
}

// conclude describes the result.
func (s *screen) conclude(t Tally, rolledBack int64) {
	verdict := "Every committed order arrived once and in order."
	if !t.Clean() {
		verdict = "This should not be: please report it, with the output of `outrider version`."
	}
	fmt.Fprintf(s.out, `
What the receivers found, compared with the shop's database:
  committed     %d
  delivered     %d
  duplicates    %d
  out of order  %d
  lost          %d
  rolled back   %d, of which %d arrived
%s
`, t.Committed, t.Delivered, t.Duplicates, t.OutOfOrder, t.Lost, rolledBack, t.Phantoms(), verdict)
}
