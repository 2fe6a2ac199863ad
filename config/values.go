package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// scalarValue fills a value of one of our scalar types.
func (c *checker) scalarValue(v reflect.Value, s scalar, f field, at place) {
	n := at.node
	if n.kind == nullNode || n.kind == mappingNode || n.kind == listNode {
		c.expect(at, textNode)
		return
	}
	if fm := s.form(); !fm.secret && (!fm.path || pathLike(n.raw)) {
		c.show(n)
	}
	if f.required && n.text == "" {
		c.add(at, "must not be empty").hint("give it a value")
		return
	}
	old := reflect.ValueOf(v.Interface())
	if err := s.parse(n.text); err != nil {
		v.Set(old)
		c.add(at, "%v, found %s", err, n.quote())
		return
	}
	if n.kind != textNode {
		v.Set(old)
		c.expect(at, textNode)
		return
	}
	c.variables(at, s)
	if s.form().secret {
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
func (c *checker) basic(v reflect.Value, f field, at place) {
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
		err := c.add(at, "expected %s, found %s", wantText(v), n.quote())
		if n.quoted && parseBasic(reflect.New(v.Type()).Elem(), n.text) {
			err.hint("remove the quotes")
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
func (c *checker) text(v reflect.Value, f field, at place) {
	n := at.node
	switch {
	case f.enum != nil && !slices.Contains(f.enum, n.text): // before its kind: quotes would not help a number
		err := c.add(at, "%v, found %s", oneOf(f.enum), n.quote())
		if near := nearest(n.text, f.enum); near != "" {
			err.hint("did you mean %s?", near)
		}
	case !c.expect(at, textNode):
	case f.required && n.text == "":
		c.add(at, "must not be empty").hint("give it a value")
	default:
		v.SetString(n.text)
	}
}

// bounds compares a value with the least and the most that its field allows.
func (c *checker) bounds(f field, at place, compare func(bound string) int) {
	if f.min != "" && compare(f.min) < 0 {
		c.add(at, "must be at least %s, found %s", f.min, at.node.quote()).hint("allowed: %s", rangeText(f))
	}
	if f.max != "" && compare(f.max) > 0 {
		c.add(at, "must be at most %s, found %s", f.max, at.node.quote()).hint("allowed: %s", rangeText(f))
	}
}

// rangeText writes the bounds of a field for people.
func rangeText(f field) string {
	text := "any"
	switch {
	case f.min != "" && f.max != "":
		text = f.min + " to " + f.max
	case f.min != "":
		text = "at least " + f.min
	case f.max != "":
		text = "at most " + f.max
	}
	if f.hasDef {
		text += ", default " + f.def
	}
	return text
}

// setText sets a value from a tag, which tests have shown to be right.
func setText(v reflect.Value, text string) {
	if s, ok := asScalar(v); ok {
		_ = s.parse(text)
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

// wantText is what a number or boolean must be, for messages.
func wantText(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "a number"
}

// listNames writes names for a hint, the first ones when there are many.
func listNames(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// nearest returns the candidate that a misspelt name most likely means, or "".
func nearest(name string, candidates []string) string {
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
