package web

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/status"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"num": number, "numf": rate, "ago": ago, "exact": exact, "iso": iso, "dur": duration, "esc": url.PathEscape,
	"tone": tone, "label": label, "plural": action.Plural, "query": query, "bytes": size, "join": strings.Join, "deref": deref[int], "derefd": deref[time.Duration], "dereff": deref[float64],
	"capital": capital, "args": func(values ...any) []any { return values }, "plus": action.AtLeast, "when": when,
}

// rate writes messages a second.
func rate(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.05:
		return "<0.1"
	case f < 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return number(int64(math.Round(f)))
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// duration writes a time span in its two largest units.
func duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return units(d, time.Minute, "min", time.Second, "s")
	case d < 48*time.Hour:
		return units(d, time.Hour, "h", time.Minute, "min")
	}
	return units(d, 24*time.Hour, "d", time.Hour, "h")
}

func units(d, large time.Duration, l string, small time.Duration, s string) string {
	if rest := d % large / small; rest > 0 {
		return fmt.Sprintf("%d %s %d %s", d/large, l, rest, s)
	}
	return fmt.Sprintf("%d %s", d/large, l)
}

// ago writes a time relative to now.
func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return "in " + coarse(-d)
	}
	return coarse(d) + " ago"
}

// coarse writes a span in its largest unit.
func coarse(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " d"
}

// exact writes a time in UTC, with its date unless it is today's.
func exact(t time.Time) string {
	t = t.UTC()
	if now := time.Now().UTC(); t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 UTC")
}

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// when takes a time or a pointer to one; the zero time is unknown.
func when(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t
	case *time.Time:
		return deref(t)
	}
	return time.Time{}
}

func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// capital begins a sentence, unless with a name such as http or a command.
func capital(text string) string {
	first, rest, _ := strings.Cut(text, " ")
	if first == "" || strings.ContainsAny(first, ":/.`_") {
		return text
	}
	r, n := utf8.DecodeRuneInString(first)
	return strings.TrimSpace(string(unicode.ToUpper(r)) + first[n:] + " " + rest)
}

// link is a path of ours, or a query, that is encoded already.
type link = template.URL

// query makes the query of a link from names and values; empty values are left out.
func query(pairs ...string) link {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return link(q.Encode())
}

// tone is how bad a state is, as the stylesheet names it.
func tone(state any) string {
	switch fmt.Sprint(state) {
	case string(status.StateStopped), string(status.StateFailing), string(status.StateNoRelay), string(status.StateUnavailable), string(status.StateHeld), stateError, "operation failed", "foreign", "finding broken":
		return "bad"
	case string(status.StateRetrying), string(status.StateBehind), string(status.StateDead), "parked", "skipped", "operation stopped", "finding warning":
		return "warn"
	case string(status.StatePaused), string(status.StateGroupPaused):
		return "hold"
	case string(status.StateOK), "alive", "operation done", "settled", "finding ok":
		return "good"
	}
	return "calm"
}

// stateError is the state of all routes while the state store does not answer.
const stateError = "unknown"

// labels are states in words, where the name of the state is not.
var labels = map[string]string{
	string(status.StateNoRelay): "no owner", string(status.StateGroupPaused): "group paused", string(status.StateOK): "works", string(status.StateDead): "dead messages", string(status.StateUnavailable): "address down",
	string(status.StateForeign): "not in this configuration",
	"in_flight":                 "in flight", "unread": "not read yet", "unwanted": "no route wants it", "foreign": "unknown status",
}

func label(state any) string {
	text := fmt.Sprint(state)
	if _, after, ok := strings.Cut(text, " "); ok {
		text = after
	}
	if l, ok := labels[text]; ok {
		return l
	}
	return text
}

// number writes a number with its thousands apart.
func number(n any) string {
	v := reflect.ValueOf(n)
	if v.CanInt() {
		return action.Thousands(int(v.Int()))
	}
	return action.Thousands(int(v.Uint()))
}
