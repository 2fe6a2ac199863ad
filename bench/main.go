// Command bench measures how fast a backlog in PostgreSQL arrives in Kafka or at
// an HTTP receiver, and how soon after its commit a single row does. It compares
// Outrider with a hand-written loop (the floor) and other relays, one after the
// other in one run, on one machine:
//
//	make bench
//	make bench BENCHFLAGS='-scenario drain -runs 5 -cpus 0,1'
//
// Each peer relays in a process of its own, so that its processor time and memory
// can be measured. The clock starts with that process and stops when the last
// message has arrived, in the topic (by its end offsets) or in the HTTP server of
// this process. Then the arrived messages are compared with the table. A run that
// lost, duplicated or reordered messages has no figures; the order does not matter
// for peers that keep none.
//
// A [scenario] lists its peers, each a [peers.Peer], and its sinks, each a [measure.Sink].
//
// The program is no test: slowness is no failure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/outriderhq/outrider/bench/measure"
)

// Exit statuses, as shells use them.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == relayArg {
		os.Exit(relayMain(os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the command: figures go to out, progress and errors to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) int {
	o, err := parseOptions(args, progress)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(progress, "bench:", err)
		return exitUsage
	}
	if err := measureAll(ctx, o, out, progress); err != nil {
		fmt.Fprintln(progress, "bench:", err)
		return exitFailure
	}
	return 0
}

// measureAll starts PostgreSQL, runs the scenarios and publishes their results.
func measureAll(ctx context.Context, o *options, out, progress io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit,
		fmt.Errorf("not done after %v: raise -limit or lower -rows and -runs", o.limit))
	defer cancel()
	b := &bench{options: o, progress: progress}
	if o.compare != "" {
		var remove func() error
		if b.builds, remove, err = buildBoth(ctx, ".", o.compare, b.say); err != nil {
			return fmt.Errorf("-compare %s: %w", o.compare, err)
		}
		defer func() { err = errors.Join(err, remove()) }()
	}
	postgres, err := startPostgres(ctx, o.postgres, b.say)
	if err != nil {
		return fmt.Errorf("-postgres %s: %w", o.postgres, err)
	}
	url := ""
	if postgres != nil {
		url = postgres.URL()
		defer func() { err = errors.Join(err, postgres.Close()) }()
	}
	if b.servers, err = measure.Connect(url); err != nil {
		return err
	}
	defer b.servers.Close()
	r, err := b.runAll(ctx)
	if len(r.Scenarios) > 0 { // those that ended before one that failed
		err = errors.Join(err, r.publish(o, out))
	}
	return err
}

// runAll runs the scenarios. The report has those that ended, also when one failed.
func (b *bench) runAll(ctx context.Context) (*report, error) {
	r := &report{Command: b.options.command, Server: b.options.postgres}
	var err error
	if r.Machine, err = measure.DescribeMachine(ctx, b.servers, b.options.cpus); err != nil {
		return r, err
	}
	for _, sc := range b.options.scenarios {
		if len(sc.selected(b.options)) == 0 {
			continue // none of its peers takes part
		}
		results, missing, err := b.run(ctx, sc)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
				err = errors.Join(cause, err)
			}
			return r, fmt.Errorf("scenario %s: %w", sc.name, err)
		}
		r.Scenarios = append(r.Scenarios, b.outcome(sc, results, missing))
	}
	return r, nil
}

// outcome summarises a scenario. Of two builds, only their ratios count.
func (b *bench) outcome(sc *scenario, results []result, missing []string) outcome {
	out := outcome{Name: sc.name, Title: sc.title(b.options), Results: results, Remarks: missing}
	if len(b.builds) > 0 {
		out.Compared = compareBuilds(results)
		for _, of := range b.builds {
			out.Builds = append(out.Builds, of.name)
		}
		out.Remarks = append(out.Remarks, ratioRemark(out.Compared))
	} else {
		out.Remarks = slices.Concat(sc.remarks(results), missing)
	}
	return out
}

// publish prints the report and, with -write, puts it into the documentation.
func (r *report) publish(o *options, out io.Writer) error {
	if o.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return err
		}
	} else if err := r.text(out); err != nil {
		return err
	}
	if o.record != "" {
		if err := r.writeRecords(o.record); err != nil {
			return err
		}
	}
	if o.write {
		return errors.Join(r.writeDocs(docsFile), r.writeRecords(resultsFile))
	}
	return nil
}
