package form

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The configuration of these tests has one key of each kind that the decoder knows.
type shop struct {
	Name    string            `yaml:"name" required:"true" doc:"Name of the shop. It is shown."`
	Mode    string            `yaml:"mode" enum:"{modes}" default:"fast" doc:"How it works."`
	Count   int               `yaml:"count" min:"1" max:"10" default:"3" doc:"How many."`
	Ratio   float64           `yaml:"ratio" min:"0" max:"1" doc:"A share."`
	On      bool              `yaml:"on" default:"true" doc:"Whether it is on."`
	Every   Duration          `yaml:"every" min:"1s" max:"1h" default:"30s" doc:"An interval."`
	Room    Size              `yaml:"room" default:"1MiB" doc:"Bytes."`
	Pace    Rate              `yaml:"pace" doc:"A rate."`
	Token   Secret            `yaml:"token" doc:"A secret."`
	URL     SecretURL         `yaml:"url" doc:"An address."`
	Cert    File              `yaml:"cert" doc:"A file."`
	Keys    []Secret          `yaml:"keys_file" file:"lines" doc:"Secrets of a file."`
	Headers map[string]Secret `yaml:"headers" doc:"Secrets by name."`
	Words   []string          `yaml:"words" min:"1" single:"true" doc:"Words."`
	Inner   *inner            `yaml:"inner" doc:"A section."`
	Tables  map[string]Table  `yaml:"tables" doc:"Tables by name."`
	Rows    []row             `yaml:"rows" doc:"Rows by name."`
	Layers  []Layer           `yaml:"layers" doc:"Layers."`
}

type inner struct {
	Least int `yaml:"least" default:"1" doc:"The least."`
	Most  int `yaml:"most" default:"9" doc:"The most."`
}

type row struct {
	Name string `yaml:",key"`
	Size int    `yaml:"size" default:"1" doc:"Its size."`
}

type (
	Table Kinded
	Layer Kinded
)

type stand struct {
	Common `yaml:",inline"`
	_      Key    `yaml:"title" doc:"Title of a plain table."`
	Place  string `yaml:"place" doc:"Where it is."`
	_      Key    `yaml:"rows"`
}

// Common has keys that tables choose from.
type Common struct {
	Title  string `yaml:"title" default:"none" required:"true" doc:"A title."`
	Rows   int    `yaml:"rows" default:"5" min:"1" max:"7" doc:"Rows."`
	Unused string `yaml:"unused" doc:"No table has it."`
}

func (*stand) Kind() string { return "plain" }

type wait struct {
	After Duration `yaml:"after" scalar:"true" default:"1s" doc:"How long."`
}

func (*wait) Kind() string { return "wait" }

type need struct {
	What string `yaml:"what" required:"true" doc:"What it needs."`
}

func (*need) Kind() string { return "need" }

var shops = New(Declaration{
	Root: reflect.TypeFor[shop](),
	Registries: []*Registry{
		NewRegistry[Table]("table", Kind{&stand{}, "A plain table."}),
		NewRegistry[Layer]("middleware", Kind{&wait{}, "Waits."}, Kind{&need{}, "Needs."}),
	},
	Words: strings.NewReplacer("{modes}", "fast|slow"), Names: regexp.MustCompile(`^[a-z]{1,8}$`),
	Meanings: map[string][]string{"label": {"name"}, "interval": {"every"}},
	Check: func(section any, c *Checker, at Location) {
		if s, ok := section.(*inner); ok && at.Sound("least", "most") && s.Most < s.Least {
			c.Add(at.Child("most"), "is less than least").Fix("exchange them")
		}
	},
})

func environment(name string) (string, bool) {
	value, ok := map[string]string{"SECRET": "hunter2", "NUMBER": "7", "EMPTY": "", "LINES": "a\nb"}[name]
	return value, ok
}

// readShop decodes a text.
func readShop(text string) (shop, *Checker, error) {
	var s shop
	c := shops.Text("shop.yaml", text, environment)
	_, err := c.Decode(&s, nil)
	return s, c, err
}

func mustShop(t *testing.T, text string) shop {
	t.Helper()
	s, _, err := readShop(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return s
}

// problems are the errors of a text.
func problems(t *testing.T, text string) []*Error {
	t.Helper()
	_, _, err := readShop(text)
	list, ok := errors.AsType[*Errors](err)
	if !ok {
		t.Fatalf("want *Errors of\n%s\ngot %v", text, err)
	}
	return list.List
}

func TestAnInlinedStructGivesTheKeysThatBlankFieldsName(t *testing.T) {
	t.Parallel()
	got := shops.Fields(reflect.TypeFor[stand]())
	names := make([]string, len(got))
	for i, f := range got {
		names[i] = f.Name
	}
	if strings.Join(names, " ") != "title place rows" {
		t.Fatalf("keys %v, want those of the blank fields, in order", names)
	}
	if f := got[0]; f.Doc != "Title of a plain table." || f.Default != "none" || !f.HasDefault || !f.Required {
		t.Errorf("title: %+v, want its own doc and the tags of the inlined field", f)
	}
	if f := got[2]; f.Doc != "Rows." || f.Min != "1" || f.Max != "7" {
		t.Errorf("rows: %+v, want the tags of the inlined field", f)
	}
	s := mustShop(t, "name: a\ntables: {x: {type: plain, title: T, place: here}}")
	if p, ok := s.Tables["x"].(*stand); !ok || p.Title != "T" || p.Place != "here" || p.Rows != 5 || p.Unused != "" {
		t.Errorf("read %+v", s.Tables["x"])
	}
	if list := problems(t, "name: a\ntables: {x: {type: plain, title: T, unused: u}}"); len(list) != 1 || list[0].Message != "unknown key unused" {
		t.Errorf("an inlined key that no blank field names: %v", list)
	}
}

func TestWordsOfTagsAreFilledIn(t *testing.T) {
	t.Parallel()
	for _, f := range shops.Fields(reflect.TypeFor[shop]()) {
		if f.Name == "mode" && strings.Join(f.Enum, ",") != "fast,slow" {
			t.Errorf("mode is one of %v", f.Enum)
		}
	}
	known := shops.vocabulary()
	for _, word := range []string{"name", "token_file", "slow", "plain", "title", "rows", "wait", "after", "type", AddKey} {
		if !known[word] {
			t.Errorf("the vocabulary lacks %s", word)
		}
	}
	if known["unused"] || known["Name"] {
		t.Error("the vocabulary has words that no key has")
	}
}
