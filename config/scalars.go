package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// scalar is a value that is written as one text. Its methods have pointer
// receivers.
type scalar interface {
	// parse sets the value. The error says what was expected and quotes
	// nothing of the text, which may come from a secret place.
	parse(text string) error
	// form describes the text for people and for the schema.
	form() form
}

// form describes how a scalar is written.
type form struct {
	name    string   // in one or two words
	pattern string   // regular expression, no stricter than parse
	enum    []string // all values, when there are few
	example string
	secret  bool
	path    bool // of a file; not shown unless it looks like one
}

// expected is the error of a text that is not what is wanted.
func expected(what string) error { return errors.New("expected " + what) }

// Duration is a span of time, never negative.
type Duration time.Duration

var durationText = regexp.MustCompile(`^(?:([0-9]{1,6})d)?((?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))*)$`)

func (d *Duration) parse(text string) error {
	parts := durationText.FindStringSubmatch(text)
	if parts == nil || text == "" {
		return expected("a duration with its unit, such as 200ms, 30s, 1h30m or 7d")
	}
	var total time.Duration
	if parts[1] != "" {
		days, err := strconv.Atoi(parts[1])
		if err != nil || days > int(math.MaxInt64/(24*time.Hour)) {
			return errors.New("is too long for a duration")
		}
		total = time.Duration(days) * 24 * time.Hour
	}
	if parts[2] != "" {
		rest, err := time.ParseDuration(parts[2])
		if err != nil || rest > math.MaxInt64-total {
			return errors.New("is too long for a duration")
		}
		total += rest
	}
	*d = Duration(total)
	return nil
}

// ParseDuration reads a duration as the file writes it.
func ParseDuration(text string) (d Duration, err error) {
	err = d.parse(text)
	return d, err
}

func (*Duration) form() form {
	return form{name: "duration", pattern: durationText.String(), example: "30s"}
}

// String writes the duration so that it can be read back: 7d, 1h30m, 200ms.
func (d Duration) String() string {
	const day = 24 * time.Hour
	if t := d.Std(); t != 0 && t%day == 0 {
		return fmt.Sprintf("%dd", t/day)
	}
	s := d.Std().String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Size is a number of bytes.
type Size int64

var sizeText = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,6})?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$`)

func (s *Size) parse(text string) error {
	if !sizeText.MatchString(text) {
		return expected("a size with its unit, such as 64MiB (1024-based) or 1MB (1000-based)")
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64/2 {
		return errors.New("is too large for a size")
	}
	*s = Size(n)
	return nil
}

func (*Size) form() form {
	return form{name: "size", pattern: sizeText.String(), example: "64MiB"}
}

// String writes the size exactly, in the largest unit that divides it.
func (s Size) String() string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	n, unit := int64(s), 0
	for n != 0 && n%1024 == 0 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + units[unit]
}

// Rate is a number of events per unit of time.
type Rate struct {
	Count int           // at least 1
	Per   time.Duration // a second, a minute or an hour
}

var (
	rateText  = regexp.MustCompile(`^([1-9][0-9]{0,8})/(s|m|h)$`)
	rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}
)

func (r *Rate) parse(text string) error {
	parts := rateText.FindStringSubmatch(text)
	if parts == nil {
		return expected("a rate such as 500/s, 30/m or 1000/h")
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return expected("a smaller rate")
	}
	*r = Rate{Count: n, Per: rateUnits[parts[2]]}
	return nil
}

// ParseRate reads a rate as the file writes it.
func ParseRate(text string) (r Rate, err error) {
	err = r.parse(text)
	return r, err
}

func (*Rate) form() form {
	return form{name: "rate", pattern: rateText.String(), example: "500/s"}
}

// PerSecond is the rate as events per second; 0 when it is not set.
func (r Rate) PerSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return float64(r.Count) / r.Per.Seconds()
}

// String writes the rate as it is read; empty when it is not set.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per {
			return fmt.Sprintf("%d/%s", r.Count, unit)
		}
	}
	return ""
}

// Start is where a new route begins.
type Start struct {
	Kind string    // "beginning", "end", "offsets" or "time"
	Time time.Time // for "time"
}

func (s *Start) parse(text string) error {
	if text == "beginning" || text == "end" || text == "offsets" {
		*s = Start{Kind: text}
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return expected("beginning, end, offsets or a time such as 2026-01-31T08:00:00Z")
	}
	*s = Start{Kind: "time", Time: t}
	return nil
}

func (*Start) form() form {
	return form{
		name: "place", example: "end",
		pattern: `^(beginning|end|offsets|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2}))$`,
	}
}

// String writes the place as it is read.
func (s Start) String() string {
	if s.Kind == "time" {
		return s.Time.Format(time.RFC3339Nano)
	}
	return s.Kind
}
