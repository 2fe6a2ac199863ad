package health

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

func answer(kind outbox.Kind, retryAfter time.Duration) error {
	return &outbox.Error{Kind: kind, Err: errInjected, Answered: true, RetryAfter: retryAfter}
}

// A refusal is the address's fault until a message of another group, sent after it, is delivered; then it is the group's own.
func TestG10_WhoseFaultARefusalIs(t *testing.T) {
	type step struct {
		group string
		err   error // of the destination
		want  outbox.Kind
	}
	busy, gone, wait := answer(outbox.KindUnavailable, 0), answer(outbox.KindGone, 0), answer(outbox.KindUnavailable, time.Minute)
	const ok = outbox.Kind(-1)
	for name, steps := range map[string][]step{
		"never delivered":                {{"a", busy, outbox.KindUnavailable}, {"a", busy, outbox.KindUnavailable}},
		"another group is delivered":     {{"a", busy, outbox.KindUnavailable}, {"b", nil, ok}, {"a", busy, outbox.KindTransient}},
		"and it asks for time":           {{"a", wait, outbox.KindUnavailable}, {"b", nil, ok}, {"a", wait, outbox.KindReleased}},
		"it is delivered in between":     {{"a", busy, outbox.KindUnavailable}, {"a", nil, ok}, {"a", busy, outbox.KindUnavailable}},
		"gone to one group, four times":  {{"a", gone, outbox.KindUnavailable}, {"a", gone, outbox.KindUnavailable}, {"a", gone, outbox.KindUnavailable}, {"a", gone, outbox.KindGone}},
		"gone to two groups":             {{"a", gone, outbox.KindUnavailable}, {"b", gone, outbox.KindGone}},
		"gone to one, others delivered":  {{"a", gone, outbox.KindUnavailable}, {"b", nil, ok}, {"a", gone, outbox.KindTransient}},
		"no answer":                      {{"a", outbox.Unavailable(errInjected, 0), outbox.KindUnavailable}, {"b", nil, ok}, {"a", outbox.Unavailable(errInjected, 0), outbox.KindUnavailable}},
		"another kind is left as it is":  {{"a", outbox.Permanent(errInjected), outbox.KindPermanent}},
		"an error of no kind is as well": {{"a", errInjected, outbox.KindTransient}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f Refusals
				for i, s := range steps {
					time.Sleep(time.Second)
					var errs []error
					if s.err != nil {
						errs = []error{s.err}
					}
					verdicts := f.Judge("main", []string{s.group}, time.Now(), errs)
					if s.want == ok {
						if verdicts != nil {
							t.Errorf("step %d: %v for a delivery", i+1, verdicts)
						}
						continue
					}
					if got := outbox.KindOf(verdicts[0]); got != s.want || !errors.Is(verdicts[0], errInjected) {
						t.Errorf("step %d: kind %v (%v), want %v", i+1, got, verdicts[0], s.want)
					}
				}
			})
		})
	}
}

// An address is remembered while it refuses a group only.
func TestRefusalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Refusals
		f.Judge("main", []string{"a", "b"}, time.Now(), []error{answer(outbox.KindUnavailable, 0), nil})
		if f.None() {
			t.Error("nothing is remembered")
		}
		f.Judge("main", []string{"a"}, time.Now(), nil)
		if !f.None() {
			t.Error("the address is remembered after the group was delivered")
		}
	})
}
