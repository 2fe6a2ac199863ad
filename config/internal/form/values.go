package form

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// scalarValue fills a value of one of our scalar types.
func (c *Checker) scalarValue(v reflect.Value, s Scalar, f Field, at Location) {
	n := at.node
	if n.kind == nullNode || n.kind == mappingNode || n.kind == listNode {
		c.expect(at, textNode)
		return
	}
	if fm := s.Spelling(); !fm.Secret && (!fm.Path || pathLike(n.raw)) {
		c.show(n)
	}
	if f.Required && n.text == "" {
		c.Add(at, "must not be empty").Fix("give it a value")
		return
	}
	old := reflect.ValueOf(v.Interface())
	if err := s.Parse(n.text); err != nil {
		v.Set(old)
		c.Add(at, "%v, found %s", err, n.quote())
		return
	}
	if n.kind != textNode {
		v.Set(old)
		c.expect(at, textNode)
		return
	}
	c.variables(at, s)
	if s.Spelling().Secret {
		c.mask(n, s)
		if c.literal == nil && !n.fromEnv && n.text != "" && fmt.Sprint(v.Interface()) != n.text {
			c.literal = &at
		}
	}
	if v.CanInt() {
		c.bounds(f, at, func(bound string) int {
			limit := reflect.New(v.Type()).Elem()
			setText(limit, bound)
			return cmp.Compare(v.Int(), limit.Int())
		})
	}
}

// basic fills a string, a number or a boolean.
func (c *Checker) basic(v reflect.Value, f Field, at Location) {
	n := at.node
	if n.kind == mappingNode || n.kind == listNode || n.kind == nullNode {
		c.expect(at, basicKind(v))
		return
	}
	c.show(n)
	if v.Kind() == reflect.String {
		c.text(v, f, at)
		return
	}
	if n.quoted && !n.fromEnv || !parseBasic(v, n.text) {
		err := c.Add(at, "expected %s, found %s", wantText(v), n.quote())
		if n.quoted && parseBasic(reflect.New(v.Type()).Elem(), n.text) {
			err.Fix("remove the quotes")
		}
		return
	}
	c.bounds(f, at, func(bound string) int {
		limit := reflect.New(v.Type()).Elem()
		setText(limit, bound)
		if v.CanInt() {
			return cmp.Compare(v.Int(), limit.Int())
		}
		return cmp.Compare(v.Float(), limit.Float())
	})
}

// text fills a string, which may have to be one of a few.
func (c *Checker) text(v reflect.Value, f Field, at Location) {
	n := at.node
	switch {
	case f.Enum != nil && !slices.Contains(f.Enum, n.text): // before its kind: quotes would not help a number
		err := c.Add(at, "%v, found %s", OneOf(f.Enum), n.quote())
		if near := Nearest(n.text, f.Enum); near != "" {
			err.Fix("did you mean %s?", near)
		}
	case !c.expect(at, textNode):
	case f.Required && n.text == "":
		c.Add(at, "must not be empty").Fix("give it a value")
	default:
		v.SetString(n.text)
	}
}

// bounds compares a value with the least and the most that its field allows.
func (c *Checker) bounds(f Field, at Location, compare func(bound string) int) {
	if f.Min != "" && compare(f.Min) < 0 {
		c.Add(at, "must be at least %s, found %s", f.Min, at.node.quote()).Fix("allowed: %s", RangeText(f))
	}
	if f.Max != "" && compare(f.Max) > 0 {
		c.Add(at, "must be at most %s, found %s", f.Max, at.node.quote()).Fix("allowed: %s", RangeText(f))
	}
}

// RangeText writes the bounds of a field for people.
func RangeText(f Field) string {
	text := "any"
	switch {
	case f.Min != "" && f.Max != "":
		text = f.Min + " to " + f.Max
	case f.Min != "":
		text = "at least " + f.Min
	case f.Max != "":
		text = "at most " + f.Max
	}
	if f.HasDefault {
		text += ", default " + f.Default
	}
	return text
}

// setText sets a value from a tag, which tests have shown to be right.
func setText(v reflect.Value, text string) {
	if s, ok := asScalar(v); ok {
		_ = s.Parse(text)
		return
	}
	parseBasic(v, text)
}

// parseBasic sets a string, number or boolean; false when the text is none.
func parseBasic(v reflect.Value, text string) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return true
	case reflect.Bool:
		v.SetBool(text == "true")
		return text == "true" || text == "false"
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err == nil {
			v.SetInt(int64(n))
		}
		return err == nil
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.ContainsAny(strings.ToLower(text), "xnip_") { // no hex, inf or nan
			return false
		}
		v.SetFloat(x)
		return true
	}
	return false
}

func basicKind(v reflect.Value) nodeKind {
	switch v.Kind() {
	case reflect.Bool:
		return boolNode
	case reflect.String:
		return textNode
	}
	return numberNode
}

// wantText names a number or boolean for messages.
func wantText(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "a number"
}

// ListNames writes names for a hint, the first ones when there are many.
func ListNames(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Nearest returns the candidate that a misspelt name most likely means, or "".
func Nearest(name string, candidates []string) string {
	best, least := "", min(max(1, len(name)/3), 2)+1
	if len(name) > 64 {
		return "" // not a name
	}
	for _, candidate := range candidates {
		if d := distance(strings.ToLower(name), candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap with their
// peer in order to turn one word into the other.
func distance(a, b string) int {
	prev, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			next[j] = min(next[j-1]+1, row[j]+1, row[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], prev[j-2]+1)
			}
		}
		prev, row = row, next
	}
	return row[len(b)]
}

var (
	// unexpanded is a variable without braces, which is not replaced.
	unexpanded = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)

	// unexpandedPart is one somewhere in a text.
	unexpandedPart = regexp.MustCompile(`\$[A-Za-z_]`)
)

// Unexpanded reports whether a text is a variable without braces, which is not replaced.
func Unexpanded(text string) bool { return unexpanded.MatchString(text) }

// variables warns about $NAME where ${NAME} is meant: anywhere in an address, and
// as the whole of a secret, which may hold a dollar sign of its own.
func (c *Checker) variables(at Location, s Scalar) {
	text := strings.ReplaceAll(at.node.raw, "$$", "")
	found := Unexpanded(text)
	switch of := s.Spelling(); {
	case of.Address && of.Secret:
		found = !found && unexpandedPart.MatchString(text) // the whole is no URL, which is an error
	case of.Address:
		found = unexpandedPart.MatchString(text)
	case !of.Secret:
		return
	}
	if found {
		c.Warn(at, "holds a $NAME without braces, which is not replaced").Fix("write ${NAME}; $$ stands for a dollar sign")
	}
}
