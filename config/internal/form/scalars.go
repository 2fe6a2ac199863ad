package form

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

// Scalar is a value that is written as one text. Its methods have pointer
// receivers.
type Scalar interface {
	// Parse sets the value. The error names what was expected and quotes
	// nothing of the text, which may be a secret under a wrong key.
	Parse(text string) error
	// Spelling describes the text for people and for the schema.
	Spelling() Spelling
}

// Spelling describes how a scalar is written.
type Spelling struct {
	Name    string   // in one or two words
	Pattern string   // regular expression, no stricter than Parse
	Enum    []string // all values, when there are few
	Example string
	Secret  bool
	Path    bool // of a file; not shown unless it looks like one
	Address bool // where $NAME is most likely a variable without braces
}

// Read reads a scalar as the file writes it.
func Read[T any, P interface {
	*T
	Scalar
}](text string) (v T, err error) {
	err = P(&v).Parse(text)
	return v, err
}

// Expected is the error of a text that cannot be read.
func Expected(what string) error { return errors.New("expected " + what) }

// Duration is a span of time, never negative.
type Duration time.Duration

var durationText = regexp.MustCompile(`^(?:([0-9]{1,6})d)?((?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))*)$`)

// Parse implements [Scalar].
func (d *Duration) Parse(text string) error {
	parts := durationText.FindStringSubmatch(text)
	if parts == nil || text == "" {
		return Expected("a duration with its unit, such as 200ms, 30s, 1h30m or 7d")
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

// Spelling implements [Scalar].
func (*Duration) Spelling() Spelling {
	return Spelling{Name: "duration", Pattern: durationText.String(), Example: "30s"}
}

// Std returns the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

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

// Parse implements [Scalar].
func (s *Size) Parse(text string) error {
	if !sizeText.MatchString(text) {
		return Expected("a size with its unit, such as 64MiB (1024-based) or 1MB (1000-based)")
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64/2 {
		return errors.New("is too large for a size")
	}
	*s = Size(n)
	return nil
}

// Spelling implements [Scalar].
func (*Size) Spelling() Spelling {
	return Spelling{Name: "size", Pattern: sizeText.String(), Example: "64MiB"}
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

// Parse implements [Scalar].
func (r *Rate) Parse(text string) error {
	parts := rateText.FindStringSubmatch(text)
	if parts == nil {
		return Expected("a rate such as 500/s, 30/m or 1000/h")
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return Expected("a smaller rate")
	}
	*r = Rate{Count: n, Per: rateUnits[parts[2]]}
	return nil
}

// Spelling implements [Scalar].
func (*Rate) Spelling() Spelling {
	return Spelling{Name: "rate", Pattern: rateText.String(), Example: "500/s"}
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

// OneOf is the error of a text that is not in a list.
func OneOf(values []string) error {
	if len(values) == 1 {
		return errors.New("must be " + values[0])
	}
	return fmt.Errorf("must be one of %s", strings.Join(values, ", "))
}

// Shorten keeps a name of any length fit for a message.
func Shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}
