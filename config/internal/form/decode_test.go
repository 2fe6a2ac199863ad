package form

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestEveryKindOfValueIsRead(t *testing.T) {
	t.Parallel()
	got := mustShop(t, `
name: "${NUMBER}"   # a variable in quotes is text
mode: slow
count: ${NUMBER}
ratio: 0.25
on: false
every: 1m30s
room: 2KiB
pace: 5/s
token: ${SECRET}
url: postgres://u:p@h/d
words: one
inner: {least: 2}
headers: {A: x, B: "${SECRET}"}
rows: {b: {size: 2}, a: {}}
layers: [wait, wait: 5s, need: {what: it}]
`)
	want := shop{
		Name: "7", Mode: "slow", Count: 7, Ratio: 0.25, Every: Duration(90 * time.Second), Room: 2048, Pace: Rate{5, time.Second},
		Token: NewSecret("hunter2"), URL: NewSecretURL("postgres://u:p@h/d"), Words: []string{"one"}, Inner: &inner{2, 9},
		Headers: map[string]Secret{"A": NewSecret("x"), "B": NewSecret("hunter2")},
		Rows:    []row{{"b", 2}, {"a", 1}},
		Layers:  []Layer{&wait{Duration(time.Second)}, &wait{Duration(5 * time.Second)}, &need{"it"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDefaultsAndEmptySections(t *testing.T) {
	t.Parallel()
	got := mustShop(t, "name: a\ninner:\nlayers: {add: [wait]}")
	if got.Count != 3 || got.Mode != "fast" || !got.On || got.Every != Duration(30*time.Second) || got.Room != 1<<20 {
		t.Errorf("defaults: %+v", got)
	}
	if got.Inner != nil {
		t.Errorf("a section without content is %+v, want none", got.Inner)
	}
	if len(got.Layers) != 1 {
		t.Errorf("{add: [...]} gave %v", got.Layers)
	}
	if p := WithDefaults(&inner{}); p.Most != 9 {
		t.Errorf("WithDefaults: %+v", p)
	}
}

// Each mistake is one error, at the line and column of its cause.
func TestMistakesHaveTheirLocation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want, hint string }{
		{"count: 3", "1:1: the key name is missing", "add name: ... (Name of the shop)"},
		{"name: ''", `1:7: name: must not be empty`, "give it a value"},
		{"name: a\nmode: slwo", `2:7: mode: must be one of fast, slow, found "slwo"`, "did you mean slow?"},
		{"name: a\ncount: 0", `2:8: count: must be at least 1, found "0"`, "allowed: 1 to 10, default 3"},
		{"name: a\ncount: 11", `2:8: count: must be at most 10, found "11"`, "allowed: 1 to 10, default 3"},
		{"name: a\ncount: many", `2:8: count: expected a whole number, found "many"`, ""},
		{"name: a\ncount: '3'", `2:8: count: expected a whole number, found "3"`, "remove the quotes"},
		{"name: a\ncount: [3]", "2:8: count: expected a number, found a list", ""},
		{"name: a\nratio: 2", `2:8: ratio: must be at most 1, found "2"`, "allowed: 0 to 1"},
		{"name: a\nratio: 0x1", `2:8: ratio: expected a number, found "0x1"`, ""},
		{"name: a\non: yes", `2:5: on: expected true or false, found "yes"`, ""},
		{"name: 5", "1:7: name: expected a string, found a number", "put it in quotes"},
		{"name: a\nevery: 5", `2:8: every: expected a duration with its unit, such as 200ms, 30s, 1h30m or 7d, found "5"`, ""},
		{"name: a\nevery: 2h", `2:8: every: must be at most 1h, found "2h"`, "allowed: 1s to 1h, default 30s"},
		{"name: a\nnam: b", "2:1: nam: unknown key nam", "did you mean name?"},
		{"name: a\ninterval: 5s", "2:1: interval: unknown key interval", "did you mean every?"},
		{"label: a", "1:1: label: unknown key label", "did you mean name?"},
		{"name: a\ninner: 5", "2:8: inner: expected a mapping, found a number", "write {key: value}, or one indented key: value per line"},
		{"name: a\ninner: {least: 5, most: 4}", "2:25: inner.most: is less than least", "exchange them"},
		{"name: a\nwords: []", "2:8: words: must not be empty", "add an entry, or remove the key"},
		{"name: a\nwords: {a: b}", "2:8: words: expected a list, found a mapping", "write [one, two], or one item per line, each after a hyphen"},
		{"name: a\nwords: [a, '']", "2:12: words[1]: must not be empty", "give it a value"},
		{"name: a\nname: b", "2:1: name: the key name is given twice", "it was first given in line 1; keep one of them"},
		{"name: a\ntables: {x: {}}", "2:10: tables.x: the key type is missing", "add type: plain"},
		{"name: a\ntables: {x: {type: plian}}", `2:20: tables.x.type: there is no type of table "plian"`, "did you mean plain?"},
		{"name: a\ntables: {X: {type: plain}}", "2:10: tables.X: is not a name for a table", "use at most 48 of a-z, 0-9, _ and -"},
		{"name: a\ntables: {x: {type: plain, title: t, rows: 8}}", `2:43: tables.x.rows: must be at most 7, found "8"`, "allowed: 1 to 7, default 5"},
		{"name: a\nlayers: [wiat]", `2:10: layers[0]: there is no middleware "wiat"`, "did you mean wait?"},
		{"name: a\nlayers: [need]", "2:10: layers[0].need: the key what is missing", "add what: ... (What it needs)"},
		{"name: a\nlayers: [{wait: 5s, need: {}}]", "2:10: layers[0]: expected one middleware by its name, found a mapping with 2 keys", "write - timeout: 30s, with each middleware behind its own hyphen"},
		{"name: a\nlayers: {ad: [wait]}", "2:10: layers.ad: unknown key ad", "did you mean add?"},
		{"name: ${MISSING}", "1:7: name: the environment variable MISSING is not set", "set it, or write ${MISSING:-default}"},
		{"name: ${}", "1:7: name: ${...} does not hold the name of a variable", "write ${NAME} or ${NAME:-default}; $$ stands for a dollar sign"},
		{"name: ${A", "1:7: name: the variable that begins with ${ has no closing brace", "write ${NAME} or ${NAME:-default}; $$ stands for a dollar sign"},
		{"name: !!str a", "1:7: name: YAML tags are not used here", "remove the tag"},
		{"name: *a", "1:7: name: no anchor of this name comes before", `quote values that begin with *: "*"`},
		{"name: a\n---\nname: b", "2:1: a second YAML document begins here", "remove the line ---, or keep one file for each configuration"},
		{"", "1:1: the file is empty", "begin with sources:, destinations: and routes:"},
		{"- a", "1:1: expected a mapping, found a list", "begin with sources:, destinations: and routes:"},
		{"name: a\x00", "1:8: the file holds a character that is not text", "save the file as UTF-8"},
		{"token: a\nname: b\ntoken_file: c", "3:1: token_file: token and token_file exclude each other", "remove one of them"},
		{"name: a\ncert: |\n  -----BEGIN X\n", `2:7: cert: expected the path of a file, not its content, found ***`, ""},
	} {
		list := problems(t, test.text)
		if len(list) != 1 {
			t.Errorf("%q: %d errors, want one: %v", test.text, len(list), list)
			continue
		}
		if got := list[0].Error(); got != "shop.yaml:"+test.want || list[0].Hint != test.hint {
			t.Errorf("%q:\ngot  %s (%s)\nwant shop.yaml:%s (%s)", test.text, got, list[0].Hint, test.want, test.hint)
		}
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain", "$HOME": "$HOME", "a$": "a$", "$$": "$", "$${NUMBER}": "${NUMBER}", "${NUMBER}": "7", "a${NUMBER}b": "a7b",
		"${EMPTY:-x}": "x", "${NONE:-x}": "x", "${NONE:-}": "", "${NUMBER:-x}": "7", "${NONE:-a: {b}": "a: {b",
	} {
		got, _, err := readShop(`{name: a, words: ["` + text + `"]}`)
		if want == "" {
			if err == nil {
				t.Errorf("%s: an item that is empty was taken", text)
			}
		} else if err != nil || got.Words[0] != want {
			t.Errorf("%s = %q, %v, want %q", text, got.Words, err, want)
		}
	}
}

// Errors that leaveOut selects do not count, unless there are others.
func TestErrorsCanBeLeftOut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ partial, fails bool }{
		"name: a":                     {},
		"name: a\ncount: 0":           {partial: true},
		"name: a\ncount: 0\nratio: 2": {fails: true},
	} {
		var s shop
		c := shops.Text("shop.yaml", text, nil)
		partial, err := c.Decode(&s, func(e *Error) bool { return e.Path == "count" })
		if partial != want.partial || (err != nil) != want.fails {
			t.Errorf("%q: partial %v, %v", text, partial, err)
		}
	}
}

func TestSecretsOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two, none := file("one.txt", "hunter2\r\n"), file("two.txt", "# all\nhunter2\n\n hunter3 \n"), file("none.txt", "# nothing\n")
	got := mustShop(t, "name: a\ntoken_file: "+one+"\nkeys_file: "+two+"\nheaders_file: {X: "+one+"}\nheaders: {Y: z}")
	if got.Token.Reveal() != "hunter2" || got.Headers["X"].Reveal() != "hunter2" || got.Headers["Y"].Reveal() != "z" {
		t.Errorf("secrets %q %q", got.Token.Reveal(), got.Headers["X"].Reveal())
	}
	if len(got.Keys) != 2 || got.Keys[1].Reveal() != "hunter3" {
		t.Errorf("%d keys", len(got.Keys))
	}
	for text, want := range map[string]string{
		"token_file: " + two:                              "the file must hold one line, the secret",
		"keys_file: " + none:                              "the file holds no secrets",
		"token_file: " + dir:                              "the file cannot be read: it is a directory",
		"token_file: " + dir + "/none":                    "the file cannot be read: no such file or directory",
		"token_file: hunter2":                             "the file cannot be read: no such file or directory",
		"headers_file: {X: " + one + "}\nheaders: {X: y}": "is also given in headers_file",
		"token_file: [a]":                                 "expected a string, found a list",
	} {
		list := problems(t, "name: a\n"+text)
		if len(list) != 1 || list[0].Message != want || strings.Contains(list[0].Text(), "hunter") {
			t.Errorf("%s: %v, want %q", text, list[0].Text(), want)
		}
	}
}

func TestFilesThatOthersCanReadAreReported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.yaml")
	for _, test := range []struct {
		text string
		mode os.FileMode
		want int
	}{
		{"name: a\ntoken: x", 0o644, 1}, {"name: a\ntoken: x", 0o600, 0}, {"name: a\ntoken: ${SECRET}", 0o644, 0}, {"name: a", 0o644, 0},
	} {
		if err := os.WriteFile(path, []byte(test.text), test.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, test.mode); err != nil {
			t.Fatal(err)
		}
		c, err := shops.Open(path, environment)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Decode(&shop{}, nil); err != nil {
			t.Fatal(err)
		}
		if warnings, _ := c.Findings(); len(warnings) != test.want {
			t.Errorf("%s with mode %v: %v", test.text, test.mode, warnings)
		}
	}
	if _, err := shops.Open(path+".none", nil); err == nil {
		t.Error("a missing file was opened")
	}
}

func TestDollarSignsThatAreNoVariablesAreReported(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"token: $SECRET": true, "token: a$SECRET": false, "url: postgres://u:$PW@h/d": true, "url: postgres://u:$$PW@h/d": false,
		"words: $SECRET": false,
	} {
		_, c, err := readShop("name: a\n" + text)
		if err != nil {
			t.Fatal(text, err)
		}
		if warnings, _ := c.Findings(); (len(warnings) == 1) != want {
			t.Errorf("%s: %v", text, warnings)
		}
	}
}
