package outbox_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/outbox"
)

// What a builder accepts, both databases give back exactly.
func TestEnvelopesComeBackFromTheDatabaseAsTheyWere(t *testing.T) {
	t.Parallel()
	for dialect, db := range bothDatabases(t) {
		t.Run(string(dialect), func(t *testing.T) {
			seen := 0
			rapid.Check(t, func(rt *rapid.T) {
				want := rapid.SliceOfN(anEnvelope(), 1, 5).Draw(rt, "envelopes")
				inTx(t, db, func(tx *sql.Tx) {
					if err := client(t, dialect).Publish(t.Context(), tx, want...); err != nil {
						rt.Fatal(err)
					}
				})
				got := rows(t, db, dialect)[seen:]
				seen += len(want)
				if len(got) != len(want) {
					rt.Fatalf("%d rows, want %d", len(got), len(want))
				}
				for i := range want {
					if d := got[i].differs(want[i]); d != "" {
						rt.Fatalf("row %d: %s", i, d)
					}
				}
			})
		})
	}
}

func anEnvelope() *rapid.Generator[outbox.Envelope] {
	name := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return !unicode.IsControl(r) && r != unicode.ReplacementChar }), 0, 60, outbox.MaxNameBytes)
	some := name.Filter(func(s string) bool { return s != "" })
	text := rapid.Map(rapid.String(), func(s string) string { return strings.ReplaceAll(s, "\x00", "") })
	pairs := rapid.MapOfN(some, text, 0, 4)
	return rapid.Custom(func(t *rapid.T) outbox.Envelope {
		b := outbox.New(some.Draw(t, "type")).ID(some.Draw(t, "id")).
			Group(name.Draw(t, "group")).Tenant(name.Draw(t, "tenant")).
			Aggregate(name.Draw(t, "aggregate type"), name.Draw(t, "aggregate id")).
			OccurredAt(time.UnixMicro(rapid.Int64Range(-62_135_596_799_000_000, 253_402_300_799_999_999).Draw(t, "microseconds")))
		for k, v := range pairs.Draw(t, "tags") {
			b.Tag(k, v)
		}
		for k, v := range pairs.Draw(t, "headers") {
			b.Header(k, v)
		}
		if rapid.Bool().Draw(t, "binary") {
			b.Bytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		} else {
			b.JSON(map[string]any{text.Draw(t, "key"): []any{text.Draw(t, "value"), rapid.Float64().Draw(t, "number"), nil}})
		}
		e, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}
