package measure

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// arrival is a record in a topic.
type arrival struct {
	partition int32
	key       string
	payload   string
}

// rowsOf returns the records of a clean run: n rows in turn of three groups,
// each group in a partition of its own.
func rowsOf(n int) []arrival {
	var out []arrival
	for i := range n {
		out = append(out, arrival{int32(i % 3), fmt.Sprintf("g%d", i%3), fmt.Sprintf(`{"n": %d}`, i)})
	}
	return out
}

func check(t *testing.T, c *Checker, records []arrival) Tally {
	t.Helper()
	c.Reset()
	for _, r := range records {
		c.arrived(r.partition, []byte(r.key), []byte(r.payload))
	}
	return c.tally
}

func TestCheckerCatchesWhatIsPlanted(t *testing.T) {
	t.Parallel()
	const n = 30
	c := NewChecker()
	for _, r := range rowsOf(n) {
		if err := c.Expect([]byte(r.key), []byte(r.payload)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		plant func([]arrival) []arrival
		want  Tally
	}{
		"clean": {func(r []arrival) []arrival { return r }, Tally{Records: n}},
		"groups interleaved differently": {func(r []arrival) []arrival {
			slices.SortStableFunc(r, func(a, b arrival) int { return int(a.partition - b.partition) })
			return r
		}, Tally{Records: n}},
		"loss in the middle": {func(r []arrival) []arrival { return slices.Delete(r, 9, 10) }, Tally{Records: n - 1, Lost: 1}},
		"loss at the end":    {func(r []arrival) []arrival { return r[:n-2] }, Tally{Records: n - 2, Lost: 2}},
		"nothing":            {func([]arrival) []arrival { return nil }, Tally{Lost: n}},
		"inversion": {func(r []arrival) []arrival {
			r[6], r[9] = r[9], r[6]
			return r
		}, Tally{Records: n, OutOfOrder: 1}},
		"late by three": {func(r []arrival) []arrival {
			late := r[0]
			return slices.Insert(slices.Delete(r, 0, 1), 9, late)
		}, Tally{Records: n, OutOfOrder: 1}},
		"duplicate at once":       {func(r []arrival) []arrival { return slices.Insert(r, 5, r[4]) }, Tally{Records: n + 1, Duplicates: 1}},
		"duplicate much later":    {func(r []arrival) []arrival { return append(r, r[0]) }, Tally{Records: n + 1, Duplicates: 1}},
		"loss and duplicate":      {func(r []arrival) []arrival { r[20] = r[2]; return r }, Tally{Records: n, Lost: 1, Duplicates: 1}},
		"group in two partitions": {func(r []arrival) []arrival { r[29].partition = 0; return r }, Tally{Records: n, OutOfOrder: 1}},
		"another group's key":     {func(r []arrival) []arrival { r[3].key = "g1"; return r }, Tally{Records: n, Lost: 1, Foreign: 1}},
		"key of no group":         {func(r []arrival) []arrival { r[3].key = ""; return r }, Tally{Records: n, Lost: 1, Foreign: 1}},
		"changed payload":         {func(r []arrival) []arrival { r[3].payload += " "; return r }, Tally{Records: n, Lost: 1, Foreign: 1}},
		"record of somebody else": {func(r []arrival) []arrival { return append(r, arrival{0, "g0", "{}"}) }, Tally{Records: n + 1, Foreign: 1}},
	} {
		got := check(t, c, tt.plant(rowsOf(n)))
		if got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
		clean := got.Lost+got.Duplicates+got.OutOfOrder+got.Foreign == 0
		if (got.err() == nil) != clean {
			t.Errorf("%s: error %v of %+v", name, got.err(), got)
		}
	}
}

func TestCheckerRefusesRowsThatLookAlike(t *testing.T) {
	t.Parallel()
	c := NewChecker()
	if err := c.Expect([]byte("a"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := c.Expect([]byte("b"), []byte("{}")); err == nil || !strings.Contains(err.Error(), "same payload") {
		t.Errorf("got %v", err)
	}
}

func TestCheckerOfMessagesWithoutKeys(t *testing.T) {
	t.Parallel()
	c := NewChecker()
	for _, r := range rowsOf(9) {
		if err := c.Expect([]byte(r.key), []byte(r.payload)); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		bodies []string
		want   Tally
	}{
		"clean":          {[]string{`[{"n": 0}, {"n": 3}]`, `[{"n": 1},{"n": 4},{"n": 7}]`, `[{"n": 2}]`, `[{"n": 5}, {"n": 8}]`, `[{"n": 6}]`}, Tally{Records: 9}},
		"two groups":     {[]string{`[{"n": 0}, {"n": 1}]`}, Tally{Records: 2, Lost: 7, Mixed: 1}},
		"against order":  {[]string{`[{"n": 3}]`, `[{"n": 0}]`}, Tally{Records: 2, Lost: 7, OutOfOrder: 1}},
		"sent again":     {[]string{`[{"n": 0}]`, `[{"n": 0}]`}, Tally{Records: 2, Lost: 8, Duplicates: 1}},
		"somebody's own": {[]string{`[{"n": 10}]`}, Tally{Records: 1, Lost: 9, Foreign: 1}},
	} {
		c.Reset()
		for _, body := range tt.bodies {
			if err := (Batches{}).check(c, &request{at: at, body: []byte(body)}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if c.tally != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, c.tally, tt.want)
		}
		if (c.tally.err() == nil) != (name == "clean") {
			t.Errorf("%s: error %v", name, c.tally.err())
		}
	}
	if err := (Batches{}).check(c, &request{body: []byte(`{"n": 0}`)}); err == nil {
		t.Error("a body that is no array was accepted")
	}
}

func TestCheckerVerifiesSignatures(t *testing.T) {
	t.Parallel()
	c := NewChecker()
	body := []byte(`{"n": 0}`)
	if err := c.Expect([]byte("g"), body); err != nil {
		t.Fatal(err)
	}
	// By the reference library, which knows nothing of ours.
	reference, err := standardwebhooks.NewWebhook(WebhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0)
	good, err := reference.Sign("id", at, body)
	if err != nil {
		t.Fatal(err)
	}
	for signature, unsigned := range map[string]int{good: 0, good + "x": 1, "": 1} {
		c.Reset()
		r := request{body: body, header: http.Header{}, at: at}
		r.header.Set(webhookID, "id")
		r.header.Set(webhookTimestamp, "1700000000")
		r.header.Set(webhookSignature, signature)
		if err := (Webhooks{}).check(c, &r); err != nil || c.tally != (Tally{Records: 1, Unsigned: unsigned}) || !c.Times[0].Equal(at) {
			t.Errorf("%q: %+v at %v (%v)", signature, c.tally, c.Times[0], err)
		}
	}
}
