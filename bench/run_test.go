package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

// absent is a floor that lacks something.
type absent struct {
	peers.Peer
	asked *int
}

func (absent) Name() string { return "absent" }

func (a absent) Provide(context.Context, *measure.Servers, func(string, ...any)) error {
	*a.asked++
	return errors.New("no such jar")
}

func TestTheRunGoesOnWithoutAPeerThatIsNotAvailable(t *testing.T) {
	t.Parallel()
	var asked int
	a := absent{peers.Floor, &asked}
	b := &bench{options: &options{}, progress: io.Discard}
	for range 2 { // of two scenarios
		able, missing := b.available(t.Context(), []entry{{peer: a, rows: 1}, {peer: peers.Floor}, {peer: a, rows: 2}})
		if len(able) != 1 || able[0].peer != peers.Floor {
			t.Errorf("able are %v", able)
		}
		if !slices.Equal(missing, []string{"absent is not available here: no such jar"}) {
			t.Errorf("missing: %q", missing)
		}
	}
	if asked != 1 {
		t.Errorf("it was provided %d times", asked)
	}
}

// warmingFloor is a floor that says that it is warm, and works with a process that
// has used time.
type warmingFloor struct{ peers.Peer }

func (warmingFloor) Warms() bool { return true }

func (warmingFloor) WarmRelay(_ context.Context, _ measure.Job, warm func(pid int) error) (int64, error) {
	return 7 << 20, warm(os.Getppid())
}

func TestWhatWarmsIsNotCounted(t *testing.T) {
	t.Parallel()
	said := notices{warm: make(chan struct{})}
	peak, err := relayPeer(t.Context(), warmingFloor{peers.Floor}, measure.Job{}, json.NewEncoder(&said))
	if err != nil || peak != 7<<20 {
		t.Errorf("peak %d, %v", peak, err)
	}
	select {
	case <-said.warm:
	default:
		t.Fatal("nobody was told that it is warm")
	}
	if len(said.said) != 1 || !said.said[0].Warm || said.said[0].CPU != said.said[0].CPU.Truncate(10*time.Millisecond) {
		t.Errorf("said %+v", said.said)
	}
}

func TestNoticesAreReadInPieces(t *testing.T) {
	t.Parallel()
	n := notices{warm: make(chan struct{})}
	for _, piece := range []string{`{"wa`, "rm\":true,\"cpu\":5000000}\nnoise\n", `{"peak_bytes"`, ":42}\n"} {
		if _, err := n.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []notice{{Warm: true, CPU: 5 * time.Millisecond}, {PeakBytes: 42}}; !slices.Equal(n.said, want) {
		t.Errorf("got %+v, want %+v", n.said, want)
	}
	<-n.warm
}

func TestRemarksCompareWithDebezium(t *testing.T) {
	t.Parallel()
	drain := []result{
		{Peer: peers.OutriderName, Rows: 9, Rate: 120, CPU: 5}, {Peer: peers.OutriderName, Rows: 12, With: warmed, Rate: 140, CPU: 5},
		{Peer: "debezium-cold", Rows: 9, Rate: 10, CPU: 100}, {Peer: "debezium", Rows: 9, With: warmed, Rate: 20, CPU: 50},
	}
	delay := []result{{Peer: "outrider-kafka", With: "1000 msgs/s", P50: 1, P99: 3}, {Peer: "debezium", With: "1000 msgs/s", P50: 5, P99: 10}}
	river := []result{{Peer: "river", Rate: 100, CPU: 40}, {Peer: peers.OutriderName, Rate: 250, CPU: 20}}
	all := strings.Join(slices.Concat(compare(drain), compareDelay(delay), riverScenario.remarks(river)), "\n")
	for _, want := range []string{
		"6.0 times as many messages per second as debezium, debezium warm", "10.0 times less processor time",
		"7.0 times as many messages per second as debezium, both warm", "12.0 times as many messages per second as debezium, both from the start",
		"has 20% of debezium's p50, and 30% of its p99", "2.5 times as many items per second as river",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
}
