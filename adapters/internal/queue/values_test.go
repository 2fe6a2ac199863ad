package queue

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/outbox"
)

func TestStatusesAreReadAsTheColumnHasThem(t *testing.T) {
	l := layout.OutboxFramework().Queue
	for value, want := range map[string]adapters.RowStatus{
		l.Statuses.Pending: adapters.RowWaiting, l.Statuses.Done: adapters.RowDone, l.Statuses.Dead: adapters.RowDead,
		"00" + l.Statuses.Done: adapters.RowDone, "": adapters.RowOther, "another": adapters.RowOther,
	} {
		if got := StatusOf(l, value); got != want {
			t.Errorf("the status %q is %v, want %v", value, got, want)
		}
	}
	if got := StatusOf(marking(), marking().Statuses.Processing); got != adapters.RowProcessing {
		t.Errorf("a row that is being processed is %v", got)
	}
}

// An id names the row that it is the key of, and no row whose key only begins alike.
func TestIdsNameOneRow(t *testing.T) {
	const id = "7f3c9a1e-1111-4000-8000-00000000000A"
	for row, want := range map[string]bool{id: true, strings.ToLower(id): true, "7": false, id[:8]: false, "": false} {
		if Names(id, row) != want {
			t.Errorf("%q names %q: %v", id, row, !want)
		}
	}
	if Names("a", "A") {
		t.Error("letters of an id that is none of a UUID have no case")
	}
}

func TestGroupsAreNamedWithAndWithoutTheirKind(t *testing.T) {
	for _, test := range []struct {
		kind, group string
		want        []string
	}{
		{"", "x", []string{"x"}}, {"", ":x", []string{":x"}}, {"EVENT", "x", []string{"x"}}, {"EVENT", "EVENT:x", []string{"EVENT:x", "x"}},
	} {
		if got := GroupNames(test.kind, test.group); !slices.Equal(got, test.want) {
			t.Errorf("%q in a table of the kind %q may be %v, want %v", test.group, test.kind, got, test.want)
		}
	}
	if GroupOf(layout.Table{Kind: "EVENT"}, "x") != "EVENT:x" || GroupOf(layout.Table{}, "x") != "x" {
		t.Error("the group of a message is not its name with the kind of the table")
	}
}

func TestErrorsFitAColumnOfText(t *testing.T) {
	if got := Error("a\x00b\xffc"); got != "abc" {
		t.Errorf("kept %q", got)
	}
	if got := Error(strings.Repeat("ü", LongestError+1)); len([]rune(got)) > LongestError {
		t.Errorf("kept %d characters", len([]rune(got)))
	}
}

func TestEffectsOfResults(t *testing.T) {
	at := time.UnixMilli(1)
	counts, keeps, claimless := *marking(), *marking(), remembering(t)
	counts.DeadKeepsRetries = false
	keeps.DeadKeepsRetries, keeps.DeadBy = true, map[string]string{"timeout": "expired"}
	for name, test := range map[string]struct {
		layout *layout.Queue
		result adapters.ClaimResult
		want   Effect
	}{
		"delivered":             {marking(), adapters.ClaimResult{Outcome: outbox.OutcomeDelivered, Attempts: 2}, Effect{Change: Done, Attempts: 2}},
		"skipped":               {marking(), adapters.ClaimResult{Outcome: outbox.OutcomeSkipped}, Effect{Change: Done}},
		"tried again":           {marking(), adapters.ClaimResult{Outcome: outbox.OutcomeRetry, Attempts: 1, Error: "no", At: at}, Effect{Change: Retry, Attempts: 1, Error: "no", Due: at}},
		"dead":                  {&counts, adapters.ClaimResult{Outcome: outbox.OutcomeDead, Attempts: 3, Error: "no"}, Effect{Change: DeadLetter, Status: marking().Statuses.Dead, Attempts: 3, Error: "no"}},
		"dead by its cause":     {&keeps, adapters.ClaimResult{Outcome: outbox.OutcomeDead, Attempts: 3, Cause: "timeout"}, Effect{Change: DeadLetter, Status: "expired", Attempts: 2}},
		"released":              {marking(), adapters.ClaimResult{Outcome: outbox.OutcomeReleased, Attempts: -1}, Effect{Change: Release}},
		"left as it is":         {claimless, adapters.ClaimResult{Outcome: outbox.OutcomeReleased}, Effect{Change: Leave}},
		"released, and charged": {claimless, adapters.ClaimResult{Outcome: outbox.OutcomeReleased, Attempts: 1}, Effect{Change: Release, Attempts: 1}},
	} {
		test.result.Claim = &adapters.Claim{}
		if got := EffectOf(test.layout, !test.layout.Claimless(), &test.result); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if ends := EffectOf(test.layout, !test.layout.Claimless(), &test.result).Ends(); ends != (test.want.Change == Done || test.want.Change == DeadLetter) {
			t.Errorf("%s ends the row: %v", name, ends)
		}
	}
}

func TestTheDoctorsFindingAboutStuckRows(t *testing.T) {
	for name, test := range map[string]struct {
		stuck Stuck
		level adapters.Level
		words []string
	}{
		"none":    {Stuck{}, adapters.LevelOK, []string{"none for longer than"}},
		"some":    {Stuck{Overdue: 2, Longest: 90 * time.Second}, adapters.LevelWarning, []string{"2 are marked", "1m30s"}},
		"many":    {Stuck{Overdue: 1000, More: true}, adapters.LevelWarning, []string{"at least 1000"}},
		"undated": {Stuck{Overdue: 1, Undated: 3, Claimed: "processed_at", Rows: "rows"}, adapters.LevelWarning, []string{"3 have no time in processed_at", "the rows behind them"}},
	} {
		f := test.stuck.Finding()
		for _, word := range test.words {
			if f.Level != test.level || !strings.Contains(f.Text, word) || (f.Fix == "") != (f.Level == adapters.LevelOK) {
				t.Errorf("%s: %+v, want %q", name, f, word)
			}
		}
	}
}

func TestSharesOfALimit(t *testing.T) {
	for name, test := range map[string]struct {
		has          []int
		limit, batch int
		want         []int
	}{
		"even":                     {[]int{9, 9, 9}, 9, 100, []int{3, 3, 3}},
		"what one leaves":          {[]int{1, 9, 9}, 9, 100, []int{1, 4, 4}},
		"what the last one leaves": {[]int{9, 9, 0}, 9, 100, []int{6, 3, 0}},
		"a batch of each":          {[]int{9, 9, 9}, 9, 2, []int{2, 2, 2}},
		"one table":                {[]int{9}, 4, 100, []int{4}},
	} {
		got, total := make([]int, len(test.has)), 0
		err := Share(len(test.has), test.limit, test.batch, func() int { return total }, func(i, most int) error {
			n := min(most, test.has[i]-got[i])
			got[i], total = got[i]+n, total+n
			return nil
		})
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestCoverageOfTablesIsThatOfTheSlowest(t *testing.T) {
	early, late := time.UnixMilli(1), time.UnixMilli(2)
	got := Looked(adapters.Coverage{Since: late, Due: late, Unwanted: 1}, adapters.Coverage{Since: early, Next: late, Due: early, Unwanted: 2})
	if got.Since != early || got.Next != late || got.Due != early || got.Unwanted != 3 {
		t.Errorf("%+v", got)
	}
}
