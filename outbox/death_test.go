package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/net/http/httpguts"

	"github.com/outriderhq/outrider/outbox"
)

func TestDeathTravelsInMetadata(t *testing.T) {
	t.Parallel()
	d := outbox.DeathBy(outbox.VerdictOf(outbox.Exhaust(errCause)), 3, "orders")
	m := message.Metadata{"own": "kept"}
	d.Mark(m)
	got, ok := outbox.DeathOf(m)
	if !ok || got != d || got.Reason != outbox.DeathExhausted || m["own"] != "kept" {
		t.Errorf("got %+v, want %+v", got, d)
	}
	if d := outbox.DeathBy(outbox.VerdictOf(outbox.Permanent(errCause)), 0, ""); d.Reason != outbox.DeathPermanent || time.Since(d.At) > time.Minute {
		t.Errorf("got %+v", d)
	}
	if _, ok := outbox.DeathOf(message.Metadata{"own": "kept"}); ok {
		t.Error("a living message is dead")
	}
}

// What a receiver answered must not keep the copy from being sent.
func TestDeathsErrorIsFitForAHeader(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a\r\nb: c", "\xff\x00\x1b[31m", strings.Repeat("größe ", 1000), ""} {
		m := message.Metadata{}
		outbox.Death{Reason: outbox.DeathPermanent, Error: text}.Mark(m)
		got := m[outbox.MetaPoisonError]
		if !httpguts.ValidHeaderFieldValue(got) || !utf8.ValidString(got) || len(got) > 1024 {
			t.Errorf("%.20q became %q", text, got)
		}
	}
	if got := outbox.DeathBy(outbox.Verdict{Err: errors.New("a\nb")}, 1, "").Error; got != "a\nb" {
		t.Errorf("the whole error is kept until then, got %q", got)
	}
}
