package outbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/outbox"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want outbox.Kind
		name string
	}{
		{errCause, outbox.KindTransient, "transient"},
		{outbox.Transient(errCause, 0), outbox.KindTransient, "transient"},
		{outbox.Unavailable(errCause, 0), outbox.KindUnavailable, "unavailable"},
		{outbox.Gone(errCause), outbox.KindGone, "gone"},
		{outbox.Permanent(errCause), outbox.KindPermanent, "permanent"},
		{outbox.Released(errCause), outbox.KindReleased, "released"},
		{fmt.Errorf("wrapped: %w", outbox.Skip("why")), outbox.KindSkip, "skip"},
		{&outbox.Error{Kind: 42, Err: errCause}, outbox.Kind(42), "kind(42)"},
	} {
		if got := outbox.KindOf(tt.err); got != tt.want || got.String() != tt.name {
			t.Errorf("%v: got %v, want %v named %q", tt.err, got, tt.want, tt.name)
		}
	}
}

func TestKindsKeepTextAndCause(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		outbox.Transient(errCause, 0), outbox.Unavailable(errCause, 0), outbox.Gone(errCause), outbox.Permanent(errCause), outbox.Released(errCause),
	} {
		if err.Error() != "cause" || !errors.Is(err, errCause) {
			t.Errorf("%#v: text %q", err, err)
		}
	}
	if err := outbox.Skip("duplicate"); !strings.Contains(err.Error(), "duplicate") {
		t.Errorf("the reason is missing: %v", err)
	}
}
