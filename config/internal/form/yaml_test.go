package form

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What YAML has and the configuration does not is one error, at its place, with what to write instead.
func TestYAMLThatIsNotUsedHere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want, hint string }{
		{"name: a\ninner: &i {least: 2}\nrows: {a: {<<: *i}}", "3:12: rows.a: merge keys (<<) are not used here", "write the keys out, or use an alias for the whole value"},
		{"name: a\nwords: !!seq [x]", "2:8: words: YAML tags are not used here", "remove the tag"},
		{"name: a\nwords: [*none]", "2:9: words[0]: no anchor of this name comes before", `quote values that begin with *: "*"`},
		{"name: a\nwords: [x, *x]\nmode: &x fast", "2:12: words[1]: no anchor of this name comes before", `quote values that begin with *: "*"`},
		{"name: a\n{a: b}: c", "2:7: YAML: found an invalid key for this map", ""},
		{"name: a\nwords: [{{.Type}}]", "2:10: YAML: could not find flow map content", `quote values that begin with a brace: "{{.Type}}"`},
		{"name: {a: b}", "1:7: name: expected a string, found a mapping", `quote values that begin with a brace: "{{.Type}}"`},
		{"name:\n  a: b", "2:3: name: expected a string, found a mapping", "put it in quotes; a colon in it makes it a mapping"},
		{"name: ~", "1:7: name: expected a string, found nothing", "give it a value, or remove the key"},
		{"name: true", "1:7: name: expected a string, found true or false", "put it in quotes"},
		{"name: a\nwords: [1]", "2:9: words[0]: expected a string, found a number", "put it in quotes"},
		{"name: a\non: 'true'", `2:5: on: expected true or false, found "true"`, "remove the quotes"},
		{"name: a\non:", "2:1: on: expected true or false, found nothing", "give it a value, or remove the key"},
		{"name: a\non: {}", "2:5: on: expected true or false, found a mapping", ""},
		{"name: a\ncount: 1_0", `2:8: count: expected a whole number, found "1_0"`, ""},
		{"name: a\ncount: 1e1", `2:8: count: expected a whole number, found "1e1"`, ""},
		{"name: a\nratio: .inf", `2:8: ratio: expected a number, found ".inf"`, ""},
		{"name: a\nratio: .nan", `2:8: ratio: expected a number, found ".nan"`, ""},
		{"name: a\nevery: [1s]", "2:8: every: expected a string, found a list", ""},
		{"name: a\nroom: 5", `2:7: room: expected a size with its unit, such as 64MiB (1024-based) or 1MB (1000-based), found "5"`, ""},
		{"name: a\nrows: [a]", "2:7: rows: expected a mapping, found a list", "write {key: value}, or one indented key: value per line"},
		{"name: a\nrows: {a: 5}", "2:11: rows.a: expected a mapping, found a number", "write {key: value}, or one indented key: value per line"},
		{"name: a\ntables: {x: 5}", "2:13: tables.x: expected a mapping, found a number", "write {key: value}, or one indented key: value per line"},
		{"name: a\ntables: {x: {type: [plain]}}", "2:20: tables.x.type: expected a string, found a list", ""},
		{"name: a\nlayers: [wait: [5s]]", "2:16: layers[0].wait: expected a mapping, found a list", "write {key: value}, or one indented key: value per line"},
		{"name: a\nlayers: [[wait]]", "2:10: layers[0]: expected one middleware by its name, found a list", "write - timeout: 30s, with each middleware behind its own hyphen"},
		{"name: a\nlayers: {add: [wait], wait: {}}", "2:23: layers.wait: unknown key wait", "known keys: add"},
		{"name: a\nlayers: {}", "2:9: layers: the key add is missing", "write {add: [dedupe: 24h]}, or a list"},
		{"name: a\nheaders: {X: 5}", "2:14: headers.X: expected a string, found a number", "put it in quotes"},
		{"name: a\nheaders_file: none.txt", "2:15: headers_file: expected a mapping, found a string", "write {key: value}, or one indented key: value per line"},
		{"name: a\nmode: 7", `2:7: mode: must be one of fast, slow, found "7"`, ""},
		{"name: a\n\tmode: fast", "2:1: YAML: found character '\\t' that cannot start any token", "indent with spaces"},
		{"name: a\nmode: {{.Type}}}", "", ""},
		{"name: " + strings.Repeat("[", 70), "1:71: YAML: is nested too deeply", ""},
		{strings.Repeat("- ", 70) + "a", "1:129: YAML: is nested too deeply", ""},
	} {
		list := problems(t, test.text)
		if test.want == "" {
			if len(list) == 0 || list[0].Line != 2 {
				t.Errorf("%q: %v, want an error in line 2", test.text, list)
			}
			continue
		}
		if len(list) != 1 {
			t.Errorf("%q: %d errors, want one: %v", test.text, len(list), list)
			continue
		}
		if got := list[0].Error(); got != "shop.yaml:"+test.want || list[0].Hint != test.hint {
			t.Errorf("%q:\ngot  %s (%s)\nwant shop.yaml:%s (%s)", test.text, got, list[0].Hint, test.want, test.hint)
		}
	}
}

// An alias is the value of its anchor; a mistake in it is reported once, at the text.
func TestAliases(t *testing.T) {
	t.Parallel()
	got := mustShop(t, "name: &n a\nwords: [*n, *n]\ninner: &i {least: 2}\nrows: {a: {size: 4}}")
	if !reflect.DeepEqual(got.Words, []string{"a", "a"}) || got.Inner.Least != 2 {
		t.Errorf("read %v and %+v", got.Words, got.Inner)
	}
	got = mustShop(t, "name: a\nrows:\n  a: &r {size: 4}\n  b: *r")
	if want := []row{{"a", 4}, {"b", 4}}; !reflect.DeepEqual(got.Rows, want) {
		t.Errorf("rows %v, want %v", got.Rows, want)
	}
	list := problems(t, "name: a\nrows:\n  a: &r {siz: 4}\n  b: *r")
	if len(list) != 1 || list[0].Line != 3 || list[0].Hint != "did you mean size?" {
		t.Errorf("a mistake behind an anchor: %v", list)
	}
	list = problems(t, "name: a\ntoken: &s [hunter2]\nwords: [*s]")
	if len(list) == 0 || strings.Contains(list[0].Text(), "hunter2") {
		t.Errorf("a secret behind an anchor: %v", list)
	}
}

// All mistakes are reported at once, in the order of the file, and errors.As reaches each of them.
func TestMistakesAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := readShop(`
mode: slwo
count: 0
ratio: x
inner: {least: y, mots: 4}
layers: [wiat, {need: {}}]
token: [hunter2]
`)
	list, ok := errors.AsType[*Errors](err)
	if !ok {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.List {
		got = append(got, e.Path)
	}
	if want := " mode count ratio inner.least inner.mots layers[0] layers[1].need token"; strings.Join(got, " ") != want {
		t.Errorf("errors of %v, want of %s", got, want)
	}
	text := err.Error()
	if first, ok := errors.AsType[*Error](err); !ok || first.Message != "the key name is missing" {
		t.Errorf("errors.As finds %v", first)
	}
	if n := strings.Count(text, "hint: "); n < 5 || strings.Contains(text, "hunter2") || strings.HasSuffix(text, "\n") {
		t.Errorf("%d hints in\n%s", n, text)
	}
}

// Line ends, a byte order mark and comments change neither values nor locations.
func TestFormsOfAFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"unix": "# c\nname: a\ncount: 4", "windows": "# c\r\nname: a\r\ncount: 4\r\n", "mac": "# c\rname: a\rcount: 4", "mark": "\ufeff# c\nname: a\ncount: 4",
		"document": "---\n# c\nname: a\ncount: 4\n", "end": "# c\nname: a\ncount: 4\n...\n", "flow": "{name: a, count: 4}", "explicit key": "? name\n: a\n? count\n: 4",
		"quoted keys": "\"name\": a\n'count': 4",
	} {
		if got, _, err := readShop(text); err != nil || got.Name != "a" || got.Count != 4 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, text := range []string{"# c\r\nname: a\r\ncount: 0", "# c\rname: a\rcount: 0", "\ufeff# c\nname: a\ncount: 0", "# é\nname: a\ncount: 0"} {
		if list := problems(t, text); len(list) != 1 || list[0].Line != 3 || list[0].Column != 8 {
			t.Errorf("%q: %v, want 3:8", text, list)
		}
	}
	if list := problems(t, "{name: é, count: 0}"); len(list) != 1 || list[0].Column != 18 {
		t.Errorf("columns are characters, not bytes: %v", list)
	}
	got := mustShop(t, "name: a\nwords:\n  - |\n    one\n    two\n  - >-\n    three\n    four\n")
	if want := []string{"one\ntwo\n", "three four"}; !reflect.DeepEqual(got.Words, want) {
		t.Errorf("blocks %q, want %q", got.Words, want)
	}
}

// A variable is a value, not YAML: whatever it holds stays one string, and errors show its name.
func TestValuesOfVariables(t *testing.T) {
	t.Parallel()
	values := map[string]string{"LIST": "[a, b]", "MAP": "a: {b", "COMMENT": "a # b", "ALIAS": "*x", "VAR": "${NUMBER}", "YES": "true", "TEN": "10", "TIME": "5s", "BAD": "hunter2"}
	read := func(text string) (s shop, err error) {
		_, err = shops.Text("shop.yaml", text, func(name string) (string, bool) { v, ok := values[name]; return v, ok }).Decode(&s, nil)
		return s, err
	}
	for name, value := range values {
		if got, err := read("{name: a, words: [${" + name + "}]}"); err != nil || len(got.Words) != 1 || got.Words[0] != value {
			t.Errorf("%s is read as %q, %v", name, got.Words, err)
		}
	}
	got, err := read("{name: a, count: ${TEN}, on: '${YES}', every: ${TIME}, ratio: ${NONE:-0.5}}")
	if err != nil || got.Count != 10 || !got.On || got.Every != Duration(5*time.Second) || got.Ratio != 0.5 {
		t.Errorf("read %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"count: ${BAD}": `expected a whole number, found "${BAD}"`, "mode: ${BAD}": `must be one of fast, slow, found "${BAD}"`,
		"every: ${BAD}": `expected a duration with its unit, such as 200ms, 30s, 1h30m or 7d, found "${BAD}"`, "on: ${BAD}": `expected true or false, found "${BAD}"`,
		"layers: [${BAD}]": "there is no middleware ***",
	} {
		_, err := read("name: a\n" + text)
		list, ok := errors.AsType[*Errors](err)
		if !ok || len(list.List) != 1 || list.List[0].Message != want || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
