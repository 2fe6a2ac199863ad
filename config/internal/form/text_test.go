package form

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func whole() shop {
	return shop{
		Name: "$a b", Mode: "slow", Count: 4, Ratio: 0.5, On: true, Every: Duration(time.Minute), Room: 1024, Pace: Rate{5, time.Minute},
		Token: NewSecret("hunter2"), URL: NewSecretURL("postgres://u:hunter2@h/d"), Words: []string{"one", "true"}, Inner: &inner{1, 2},
		Headers: map[string]Secret{"X-B": NewSecret("hunter2"), "A": NewSecret("x")},
		Tables:  map[string]Table{"t": &stand{Common: Common{Title: "T", Rows: 6, Unused: "u"}, Place: "p"}},
		Rows:    []row{{"b", 2}, {"a", 1}},
		Layers:  []Layer{&wait{Duration(time.Second)}, &need{"it"}},
	}
}

func TestRedactWritesTheFileWithoutSecrets(t *testing.T) {
	t.Parallel()
	s := whole()
	got := Redact(&s)
	want := `name: "$$a b"
mode: slow
count: 4
ratio: 0.5
on: true
every: 1m
room: 1KiB
pace: 5/m
token: "***"
url: "postgres://u:***@h/d"
headers:
  "A": "***"
  "X-B": "***"
words: [one, "true"]
inner:
  least: 1
  most: 2
tables:
  t:
    type: plain
    title: T
    place: p
    rows: 6
rows:
  b:
    size: 2
  a:
    size: 1
layers:
  - wait:
      after: 1s
  - need:
      what: it
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if s.Layers = []Layer{}; !strings.Contains(Redact(&s), "layers: []") {
		t.Error("an empty list is not written")
	}
}

// What is written in Go is read as it was, but for what has no key and the file's defaults.
func TestWriteIsReadBack(t *testing.T) {
	t.Parallel()
	want := whole()
	text, err := Write(want, func(reflect.Type) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	got := mustShop(t, text)
	if table, ok := want.Tables["t"].(*stand); ok {
		table.Unused = ""
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v\nby %s", got, want, text)
	}
	for full, wanted := range map[bool]bool{false: false, true: true} {
		text, err := Write(shop{Name: "a", Inner: &inner{1, 9}}, func(t reflect.Type) bool { return full && t == reflect.TypeFor[inner]() })
		if err != nil || strings.Contains(text, "least") != wanted {
			t.Errorf("in full %v: %s, %v", full, text, err)
		}
	}
	if _, err := Write(shop{Keys: []Secret{NewSecret("x")}}, func(reflect.Type) bool { return false }); err == nil || !strings.Contains(err.Error(), "keys_file") {
		t.Errorf("the content of a file was written: %v", err)
	}
}

func TestSchemaHasTheTags(t *testing.T) {
	t.Parallel()
	var schema object
	if err := json.Unmarshal(shops.Schema("Shop"), &schema); err != nil {
		t.Fatal(err)
	}
	at := func(path string) any {
		var v any = schema
		for key := range strings.SplitSeq(path, "/") {
			switch of := v.(type) {
			case map[string]any:
				v = of[key]
			case []any:
				v = of[len(key)-1] // "i" is the first, "ii" the second
			}
		}
		return v
	}
	for path, want := range map[string]any{
		"title":                                             "Shop",
		"additionalProperties":                              false,
		"required/i":                                        "name",
		"properties/name/minLength":                         1.0,
		"properties/name/description":                       "Name of the shop. It is shown.",
		"properties/mode/anyOf/i/enum/ii":                   "slow",
		"properties/mode/default":                           "fast",
		"properties/count/anyOf/i/minimum":                  1.0,
		"properties/count/anyOf/i/maximum":                  10.0,
		"properties/count/default":                          3.0,
		"properties/on/default":                             true,
		"properties/every/default":                          "30s",
		"properties/token_file/type":                        "string",
		"properties/headers_file/type":                      "object",
		"properties/keys_file/type":                         "string",
		"properties/words/anyOf/ii/minItems":                1.0,
		"properties/inner/properties/least/anyOf/i/type":    "integer",
		"properties/tables/additionalProperties/required/i": "type",
		"properties/rows/propertyNames/pattern":             "^[a-z]{1,8}$",
		"properties/layers/anyOf/i/items/anyOf/i/enum/i":    "wait",
		"$defs/table.plain/properties/type/const":           "plain",
		"$defs/table.plain/properties/title/default":        "none",
		"$defs/table.plain/required/ii":                     "title",
		"$defs/middleware.need/required/i":                  "what",
	} {
		if got := at(path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if at("$defs/table.plain/properties/unused") != nil {
		t.Error("the schema has a key that no blank field names")
	}
}

// An excerpt shows the names that the configuration knows and values that have been read as no secret, nothing else.
func TestExcerptsShowWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"name: a\nmode: slwo", "   2 | mode: slwo\n     |       ^\n"},
		{"name: a\npasword: hunter2", "   2 | pasword: ***\n     | ^\n"},
		{"name: a\ntoken: [hunter2]", "   2 | token: [***]\n     |        ^\n"},
		{"name: a\ncount: 0 # hunter2", "   2 | count: 0\n     |        ^\n"},
		{"name: a\ninner: {least: x, hunter2}", "   2 | inner: {least: x, ***}\n     |                ^\n"},
		{"name: a\nurl: [postgres://u:hunter2@h]", "   2 | url: [***]\n     |      ^\n"},
		{"name: a\nmode: \"hunter2", "   2 | mode: \"***\n     |       ^\n"},
		{"name: a\ntoken: ${SECRET}\ntoken_file: x", "   3 | token_file: x\n     | ^\n"},
		{"name: a\nmode: " + strings.Repeat("x", 200), "   2 | mode: " + strings.Repeat("x", 104) + "...\n     |       ^\n"},
	} {
		list := problems(t, test.text)
		text := list[0].Text()
		_, excerpt, _ := strings.Cut(text, "\n")
		if !strings.HasPrefix(excerpt, test.want) || strings.Contains(text, "unter2") {
			t.Errorf("%q:\n%s\nwant the excerpt\n%s", test.text, text, test.want)
		}
	}
}

func TestLocations(t *testing.T) {
	t.Parallel()
	var at Location
	d := *shops
	d.Check = func(section any, _ *Checker, here Location) {
		if _, ok := section.(*shop); ok {
			at = here
		}
	}
	c := d.Text("shop.yaml", "name: ${NUMBER}\ncount: x\nwords: [a, b]\ntoken_file: none\ninner: {least: 2}", environment)
	if _, err := c.Decode(&shop{}, nil); err == nil {
		t.Fatal("no error")
	}
	if got := strings.Join(at.Keys(), " "); got != "name count words token_file inner" {
		t.Errorf("keys %s", got)
	}
	for name, test := range map[string]struct{ got, want any }{
		"has":                        {at.Has("inner"), true},
		"has not":                    {at.Has("mode"), false},
		"a missing key":              {at.Child("mode").Found(), false},
		"its path":                   {at.Child("mode").path, "mode"},
		"KEY_file":                   {at.Child("token").path, "token_file"},
		"an item":                    {at.Child("words").Item(1).path, "words[1]"},
		"its text":                   {at.Child("words").Item(1).Text(), "b"},
		"a value as its only item":   {at.Child("name").Item(0).path, "name"},
		"items":                      {at.Child("words").Len(), 2},
		"a mapping":                  {at.Child("inner").IsMapping(), true},
		"no mapping":                 {at.Child("words").IsMapping(), false},
		"line":                       {at.Child("words").Line(), 3},
		"line of the key":            {at.Child("inner").Key().Line(), 5},
		"a key inside":               {at.Child("inner").Child("least").path, "inner.least"},
		"bad":                        {at.Child("count").Bad(), true},
		"sound":                      {at.Sound("name", "mode"), true},
		"not sound":                  {at.Sound("name", "count"), false},
		"a variable is not shown":    {at.Child("name").Shown(Duration(7)), `"${NUMBER}"`},
		"other values are":           {at.Child("words").Shown(Duration(time.Second)), "1s"},
		"a quote":                    {at.Child("words").Item(0).Quote(), `"a"`},
		"keys of what is no mapping": {len(at.Child("mode").Keys()), 0},
		"missing":                    {at.Child("inner").Missing().Found(), false},
		"a key that is no word":      {at.Child("a b").path, "[***]"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", name, test.got, test.want)
		}
	}
}

// Retract takes back what is wrong inside of a section that must not be there at all.
func TestRetract(t *testing.T) {
	t.Parallel()
	d := *shops
	d.Check = func(section any, c *Checker, at Location) {
		if _, ok := section.(*shop); ok {
			c.Retract(at.Child("inner"))
			c.Add(at.Child("inner").Key(), "has no meaning")
		}
	}
	c := d.Text("shop.yaml", "name: a\ncount: 0\ninner: {least: x, most: y}\n", nil)
	_, err := c.Decode(&shop{}, nil)
	if err == nil || strings.Contains(err.Error(), "inner.") || !strings.Contains(err.Error(), "has no meaning") || !strings.Contains(err.Error(), "count") {
		t.Errorf("got\n%v", err)
	}
}

func TestNearestKey(t *testing.T) {
	t.Parallel()
	keys := []string{"name", "every", "max_row", "url"}
	for name, want := range map[string]string{
		"maxRow": "max_row", "MAX-ROW": "max_row", "label": "name", "Interval": "every", "nam": "name", "uri": "url", "rul": "url",
		"entirely": "", "": "", strings.Repeat("name", 20): "",
	} {
		if got := shops.NearestKey(name, keys); got != want {
			t.Errorf("%s is near %q, want %q", name, got, want)
		}
	}
}
