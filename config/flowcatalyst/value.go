package flowcatalyst

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// piece is a part of a value: text, or a placeholder.
type piece struct {
	text       string
	name       string // of a placeholder's variable
	fallback   string
	hasDefault bool
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// pieces takes a value apart. ok is false when a placeholder cannot be kept: one
// that is not closed, or whose default holds another.
func pieces(value string) (out []piece, ok bool) {
	for value != "" {
		i := strings.Index(value, "${")
		if i < 0 {
			return append(out, piece{text: value}), true
		}
		if i > 0 {
			out = append(out, piece{text: value[:i]})
		}
		end := strings.IndexByte(value[i:], '}')
		if end < 0 {
			return nil, false
		}
		inner := value[i+2 : i+end]
		if strings.Contains(inner, "${") || strings.ContainsAny(inner, "\n\r\"\\") {
			return nil, false
		}
		p := piece{}
		p.name, p.fallback, p.hasDefault = strings.Cut(inner, ":")
		p.name = strings.TrimSpace(p.name)
		if p.name == "" {
			return nil, false
		}
		out = append(out, p)
		value = value[i+end+1:]
	}
	return out, true
}

// environment is the variable that sets a property in these frameworks.
func environment(name string) string {
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

// render writes a piece as our configuration does; sample is a value to check
// the result with.
func (im *importer) render(p piece, sample string) string {
	if p.name == "" {
		return strings.ReplaceAll(p.text, "$", "$$")
	}
	name := environment(p.name)
	if p.hasDefault {
		return "${" + name + ":-" + p.fallback + "}"
	}
	im.samples[name] = sample
	return "${" + name + "}"
}

// deepestReference bounds how far references to other properties are followed.
const deepestReference = 5

// resolve replaces references to other properties of the file by their values.
func (im *importer) resolve(s setting) []piece { return im.follow(s, s.value, 0) }

func (im *importer) follow(s setting, value string, depth int) []piece {
	parts, ok := pieces(value)
	if !ok {
		im.note(s, "%s: a placeholder within a placeholder, or one that is not closed, cannot be kept; the default is used: correct the result", s.key)
		return nil
	}
	var out []piece
	for _, p := range parts {
		other, found := im.settings[canonical(p.name)]
		if p.name == "" || variable.MatchString(p.name) || !found || depth >= deepestReference {
			out = append(out, p)
			continue
		}
		out = append(out, im.follow(s, other.value, depth+1)...)
	}
	return out
}

// typed renders a value whose text has to be converted; def is theirs. It also
// reports whether the default was used.
func (im *importer) typed(key, def, sample string, convert func(string) (string, error)) (text string, isDefault bool) {
	s, ok := im.own(key)
	if !ok {
		text, _ := convert(def)
		return text, true
	}
	parts := im.resolve(s)
	p := piece{text: def}
	switch len(parts) {
	case 0:
	case 1:
		p = parts[0]
	default:
		im.note(s, "%s: a value of several parts cannot be converted; the default is used: correct the result", s.key)
	}
	target := &p.text
	if p.name != "" {
		target = &p.fallback
		im.note(s, "%s: the variable %s must now be written as Outrider does, such as %s", s.key, environment(p.name), sample)
		if !p.hasDefault {
			return im.render(p, sample), false
		}
	}
	converted, err := convert(strings.TrimSpace(*target))
	if err != nil {
		im.fail(s, "%s: %q %v", s.key, *target, err)
		return "", false
	}
	*target = converted
	return im.render(p, sample), false
}

// count checks a whole number.
func count(text string) (string, error) {
	n, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
	if err != nil || n < 0 {
		return "", errors.New("is not a whole number of 0 or more")
	}
	return strconv.Itoa(n), nil
}

// attempts makes of retries the attempts in all.
func attempts(text string) (string, error) {
	text, err := count(text)
	if err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(text) // count has checked
	return strconv.Itoa(n + 1), nil
}

// seconds makes a duration of a number of seconds.
func seconds(text string) (string, error) {
	text, err := count(text)
	return text + "s", err
}

var (
	simple = regexp.MustCompile(`^([0-9]+)\s*(ns|us|ms|s|m|h|d)?$`)
	iso    = regexp.MustCompile(`^P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{1,9})?)S)?)?$`)
)

var errDuration = errors.New("is not a duration: write 1s, 500ms or PT1S")

// duration converts what Java's frameworks take for one: 500ms, 1s, PT1S, and
// plain numbers, which are seconds to Quarkus and milliseconds to Spring.
func duration(text string, millis bool) (string, error) {
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
		return short(d), err
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
	return short(sum), nil
}

// short writes a duration in its largest whole unit.
func short(d time.Duration) string {
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
