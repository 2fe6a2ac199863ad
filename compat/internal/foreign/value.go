package foreign

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Piece is a part of a value: text, or a placeholder.
type Piece struct {
	Text       string
	Name       string // of a placeholder's variable
	Fallback   string
	HasDefault bool
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Pieces takes a value apart. ok is false when a placeholder cannot be kept: one
// that is not closed, or whose default holds another.
func Pieces(value string) (out []Piece, ok bool) {
	for value != "" {
		i := strings.Index(value, "${")
		if i < 0 {
			return append(out, Piece{Text: value}), true
		}
		if i > 0 {
			out = append(out, Piece{Text: value[:i]})
		}
		end := strings.IndexByte(value[i:], '}')
		if end < 0 {
			return nil, false
		}
		inner := value[i+2 : i+end]
		if strings.Contains(inner, "${") || strings.ContainsAny(inner, "\n\r\"\\") {
			return nil, false
		}
		p := Piece{}
		p.Name, p.Fallback, p.HasDefault = strings.Cut(inner, ":")
		p.Name = strings.TrimSpace(p.Name)
		if p.Name == "" {
			return nil, false
		}
		out = append(out, p)
		value = value[i+end+1:]
	}
	return out, true
}

// Environment is the variable that sets a property in these frameworks.
func Environment(name string) string {
	if variable.MatchString(name) {
		return name
	}
	upper := strings.ToUpper(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name))
	if upper[0] >= '0' && upper[0] <= '9' {
		return "_" + upper
	}
	return upper
}

// Render writes a piece as our configuration does; sample is a value to check
// the result with.
func (f *File) Render(p Piece, sample string) string {
	if p.Name == "" {
		return strings.ReplaceAll(p.Text, "$", "$$")
	}
	name := Environment(p.Name)
	if p.HasDefault {
		return "${" + name + ":-" + p.Fallback + "}"
	}
	f.Samples[name] = sample
	return "${" + name + "}"
}

// deepestReference bounds how far references to other properties are followed.
const deepestReference = 5

// Resolve replaces references to other properties of the file by their values.
func (f *File) Resolve(s Setting) []Piece { return f.follow(s, s.Value, 0) }

func (f *File) follow(s Setting, value string, depth int) []Piece {
	parts, ok := Pieces(value)
	if !ok {
		f.Note(s, "%s: a placeholder within a placeholder, or one that is not closed, cannot be kept; the default is used: correct the result", s.Key)
		return nil
	}
	var out []Piece
	for _, p := range parts {
		other, found := f.Settings[Canonical(p.Name)]
		if p.Name == "" || variable.MatchString(p.Name) || !found || depth >= deepestReference {
			out = append(out, p)
			continue
		}
		out = append(out, f.follow(s, other.Value, depth+1)...)
	}
	return out
}

// Typed renders a value whose text has to be converted; def is theirs. It also
// reports whether the default was used.
func (f *File) Typed(key, def, sample string, convert func(string) (string, error)) (text string, isDefault bool) {
	s, ok := f.Own(key)
	if !ok {
		text, _ := convert(def)
		return text, true
	}
	parts := f.Resolve(s)
	p := Piece{Text: def}
	switch len(parts) {
	case 0:
	case 1:
		p = parts[0]
	default:
		f.Note(s, "%s: a value of several parts cannot be converted; the default is used: correct the result", s.Key)
	}
	target := &p.Text
	if p.Name != "" {
		target = &p.Fallback
		f.Note(s, "%s: the variable %s must now be written as Outrider does, such as %s", s.Key, Environment(p.Name), sample)
		if !p.HasDefault {
			return f.Render(p, sample), false
		}
	}
	converted, err := convert(strings.TrimSpace(*target))
	if err != nil {
		f.Fail(s, "%s: %q %v", s.Key, *target, err)
		return "", false
	}
	*target = converted
	return f.Render(p, sample), false
}

// Count checks a whole number.
func Count(text string) (string, error) {
	n, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
	if err != nil || n < 0 {
		return "", errors.New("is not a whole number of 0 or more")
	}
	return strconv.Itoa(n), nil
}

// Seconds makes a duration of a number of seconds.
func Seconds(text string) (string, error) {
	text, err := Count(text)
	return text + "s", err
}

// Milliseconds makes a duration of a number of milliseconds.
func Milliseconds(text string) (string, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return "", errors.New("is not a whole number of milliseconds")
	}
	return Short(time.Duration(n) * time.Millisecond), nil
}

var (
	simple = regexp.MustCompile(`^([0-9]+)\s*(ns|us|ms|s|m|h|d)?$`)
	iso    = regexp.MustCompile(`^P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,9})?)S)?)?$`)
)

var errDuration = errors.New("is not a duration: write 1s, 500ms or PT1S")

// Duration converts what Java's frameworks take for one: 500ms, 1s, PT1S, and
// plain numbers, which are seconds to Quarkus and milliseconds to Spring.
func Duration(text string, millis bool) (string, error) {
	text = strings.TrimSpace(text)
	if m := simple.FindStringSubmatch(strings.ToLower(text)); m != nil {
		unit := m[2]
		switch {
		case unit == "" && millis:
			unit = "ms"
		case unit == "":
			unit = "s"
		case unit == "d":
			return isoDuration(m[1], "", "", "")
		}
		d, err := time.ParseDuration(m[1] + unit)
		return Short(d), err
	}
	m := iso.FindStringSubmatch(strings.ToUpper(text))
	if m == nil || m[1]+m[2]+m[3]+m[4] == "" {
		return "", errDuration
	}
	return isoDuration(m[1], m[2], m[3], m[4])
}

// isoDuration adds up the parts of a duration.
func isoDuration(days, hours, minutes, seconds string) (string, error) {
	var sum time.Duration
	for _, part := range []struct {
		n    string
		unit string
		of   int64 // units
	}{{days, "h", 24}, {hours, "h", 1}, {minutes, "m", 1}, {seconds, "s", 1}} {
		if part.n == "" {
			continue
		}
		d, err := time.ParseDuration(part.n + part.unit)
		if err != nil || int64(d) > 1<<61/part.of || sum > 1<<61 {
			return "", errDuration
		}
		sum += time.Duration(int64(d) * part.of)
	}
	return Short(sum), nil
}

// Short writes a duration in its largest whole unit.
func Short(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		if d >= u.of && d%u.of == 0 {
			return strconv.FormatInt(int64(d/u.of), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(d), 10) + "ns"
}

// Join renders a text with its placeholders.
func (f *File) Join(s Setting, sample string) string {
	var b strings.Builder
	for _, p := range f.Resolve(s) {
		b.WriteString(f.Render(p, sample))
	}
	return b.String()
}
