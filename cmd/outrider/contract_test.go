package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/demo"
)

// contract is what programs rely on of a command, beside its flags.
type contract struct {
	args   string // the fewest that it takes, by which the tests of exit codes call it
	answer any    // value of the type of its answer with -o json; nil: it has none
	prints string // what it prints instead
	failed string // when it exits with 1, beside a database or a broker that cannot be used; noFailure: it never does
}

const noFailure = "-"

// contracts has every command that can be run, by its path.
var contracts = map[string]contract{
	"demo":                {args: "--to nats://127.0.0.1:1 --for 1s", answer: demo.Tally{}, failed: "a message was lost, delivered twice or out of order"},
	"init":                {answer: initAnswer{}},
	"run":                 {prints: "nothing: its log is on standard error", failed: "`drain_timeout` was too short for the messages in flight, or a second signal ended the process"},
	"validate":            {answer: validateAnswer{}, failed: noFailure},
	"schema":              {prints: "the JSON Schema; with `--example` a configuration in YAML", failed: noFailure},
	"status":              {answer: statusAnswer{}},
	"pause":               {args: "orders", answer: pauseResult{}, failed: "messages are still in flight after `--wait`; the route stays paused"},
	"resume":              {args: "orders", answer: pauseResult{}},
	"seek":                {args: "orders --to end --yes", answer: moved{}},
	"rebase":              {args: "orders --yes", answer: moved{}, failed: "the cursor is valid, or the former table is another one"},
	"route forget":        {args: "orders --yes", answer: forgetAnswer{}, failed: "the route is configured or runs"},
	"tail":                {args: "app", answer: tailedRow{}},
	"event":               {args: "x", answer: operate.Journey{}},
	"doctor":              {answer: doctorAnswer{}, failed: "something is broken; warnings leave it at 0"},
	"parked list":         {answer: parkedAnswer{}},
	"parked show":         {args: "x", answer: parkedAnswer{}, failed: "no parked message has the id"},
	"parked redrive":      {args: "--all --yes", answer: changeAnswer{}, failed: "no message with the id can be changed, or the change was stopped"},
	"parked skip":         {args: "--all --yes", answer: changeAnswer{}, failed: "no message with the id can be changed, or the change was stopped"},
	"parked purge":        {args: "--all --yes", answer: changeAnswer{}, failed: "no message with the id can be changed, or the change was stopped"},
	"operations":          {answer: operationsAnswer{}},
	"operations list":     {answer: operationsAnswer{}},
	"operations show":     {args: "x", answer: operate.OperationView{}},
	"operations stop":     {args: "x", answer: operate.OperationView{}},
	"operations resume":   {args: "x", answer: changeAnswer{}, failed: "the operation has ended, was stopped again, or failed"},
	"transactions":        {answer: transactionsAnswer{}},
	"transactions end":    {args: "x --yes", answer: endAnswer{}},
	"topic create":        {args: "bus orders.new --yes", answer: topicAnswer{}},
	"instance remove":     {args: "x --yes", answer: instanceAnswer{}},
	"retention":           {answer: retentionAnswer{}},
	"probe":               {prints: "`ok`", failed: "the relay answers no, does not answer, or the configuration does not say where to ask"},
	"publish":             {args: "--type a --payload 1", answer: publishAnswer{}},
	"import flowcatalyst": {prints: "the configuration in YAML; notes are on standard error", failed: noFailure},
	"import crablet":      {prints: "the configuration in YAML; notes are on standard error", failed: noFailure},
	"import debezium":     {prints: "the configuration in YAML; notes are on standard error", failed: noFailure},
	"version":             {answer: operate.Build{}, failed: noFailure},
}

// runnable calls f with each command that does something, but cobra's own.
func runnable(c *cobra.Command, f func(path string, c *cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	if c.Runnable() && (!c.HasSubCommands() || c.Flags().Lookup("output") != nil) {
		f(strings.TrimPrefix(c.CommandPath(), "outrider "), c)
	}
	for _, sub := range c.Commands() {
		runnable(sub, f)
	}
}

// Each command has a contract, and a form for machines unless it prints something else.
func TestEveryCommandHasAContract(t *testing.T) {
	t.Parallel()
	var found []string
	runnable((&app{}).rootCommand(), func(path string, c *cobra.Command) {
		found = append(found, path)
		k, ok := contracts[path]
		flag := c.Flags().Lookup("output")
		machine := flag != nil && flag.Shorthand == "o"
		switch {
		case !ok:
			t.Errorf("outrider %s has no contract: add it to contracts and to a script of testdata/script", path)
		case machine != (k.answer != nil), machine == (k.prints != ""):
			t.Errorf("outrider %s: -o json is %v, the contract says %T, %q", path, machine, k.answer, k.prints)
		}
	})
	for path := range contracts {
		if !slices.Contains(found, path) {
			t.Errorf("there is no command outrider %s", path)
		}
	}
}

// A command that is called wrongly exits with 2, and one whose database cannot be reached with 1.
func TestExitCodesOfEveryCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.write(`admin: {listen: off}
sources:
  app: {type: postgres, url: "postgres://relay@127.0.0.1:1/shop?connect_timeout=1"}
destinations:
  bus: {type: nats, url: "nats://127.0.0.1:1", subject: orders.new}
routes:
  orders: {from: app, to: bus}
`)
	for path, k := range contracts {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(path + " " + k.args)
			if got := s.call(append(args, "--no-such-flag")...); got.code != exitWrong || got.out != "" || got.err == "" {
				t.Errorf("called wrongly: %v", got)
			}
			if k.failed == noFailure {
				return
			}
			if got := s.call(args...); got.code != exitFailed || got.err == "" && path != "doctor" {
				t.Errorf("without a database: %v", got)
			}
		})
	}
}

// field is a field of an answer for machines.
type field struct {
	path, kind string
	optional   bool
	meaning    string
}

func (f field) String() string {
	if f.optional {
		return f.path + "\t" + f.kind + "\toptional"
	}
	return f.path + "\t" + f.kind
}

// kinds are the names of types.
var kinds = map[reflect.Kind]string{
	reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number",
	reflect.Int: "integer", reflect.Int64: "integer", reflect.Int32: "integer",
}

// kindOf is the name of a type, and the struct that it leads to, if any.
func kindOf(t reflect.Type) (name string, inner reflect.Type) {
	switch {
	case t.Kind() == reflect.Pointer:
		return kindOf(t.Elem())
	case t == reflect.TypeFor[time.Time]():
		return "time", nil
	case t == reflect.TypeFor[json.RawMessage]():
		return "JSON", nil
	case t == reflect.TypeFor[[]byte]():
		return "base64", nil
	case t.Kind() == reflect.Struct:
		return "object", t
	case t.Kind() == reflect.Slice:
		name, inner = kindOf(t.Elem())
		return "list of " + name + "s", inner
	case t.Kind() == reflect.Map:
		name, inner = kindOf(t.Elem())
		return "map of " + name + "s", inner
	}
	return kinds[t.Kind()], nil
}

// members are the fields of a struct, by their names in JSON.
func members(t reflect.Type) map[string]reflect.StructField {
	out := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "-" && name != "" {
			out[name] = f
		}
	}
	return out
}

func optional(f reflect.StructField) bool { return strings.Contains(f.Tag.Get("json"), ",omit") }

// fields lists those of a type, in its order, those of inner structs below their own.
func fields(t reflect.Type, prefix string) (all []field) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, ok := members(t)[name]; !ok {
			continue
		}
		kind, inner := kindOf(f.Type)
		all = append(all, field{prefix + name, kind, optional(f), meaning(t, f)})
		if inner != nil {
			below := prefix + name + "."
			if kind != "object" {
				below = prefix + name + "[]."
			}
			all = append(all, fields(inner, below)...)
		}
	}
	return all
}

// nonconforming compares a decoded answer with its type: unknown and missing fields, and other types.
func nonconforming(t reflect.Type, value any, path string) (problems []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind, _ := kindOf(t)
	switch v := value.(type) {
	case map[string]any:
		switch {
		case kind == "JSON":
		case t.Kind() == reflect.Map:
			for name, x := range v {
				problems = append(problems, nonconforming(t.Elem(), x, path+"."+name)...)
			}
		case kind == "object":
			known := members(t)
			for name, x := range v {
				if f, ok := known[name]; ok {
					problems = append(problems, nonconforming(f.Type, x, path+"."+name)...)
				} else {
					problems = append(problems, path+"."+name+" is not documented")
				}
			}
			for name, f := range known {
				if _, ok := v[name]; !ok && !optional(f) {
					problems = append(problems, path+"."+name+" is missing")
				}
			}
		default:
			problems = append(problems, path+" is an object, want "+kind)
		}
		return problems
	case []any:
		if kind != "JSON" && t.Kind() != reflect.Slice {
			return []string{path + " is a list, want " + kind}
		}
		for _, x := range v {
			if kind != "JSON" {
				problems = append(problems, nonconforming(t.Elem(), x, path+"[]")...)
			}
		}
		return problems
	}
	got := map[string][]string{"string": {"string", "time", "base64"}, "float64": {"number", "integer"}, "bool": {"boolean"}}[fmt.Sprintf("%T", value)]
	if kind != "JSON" && !slices.Contains(got, kind) {
		problems = append(problems, fmt.Sprintf("%s is %v, want %s", path, value, kind))
	}
	return problems
}

// meaning is the doc tag of a field, or its comment, with the values that it may have.
func meaning(t reflect.Type, f reflect.StructField) string {
	text := f.Tag.Get("doc")
	if text == "" {
		text = comments()[t.PkgPath()+"."+t.Name()+"."+f.Name]
	}
	if r := []rune(text); len(r) > 0 {
		r[0] = unicode.ToUpper(r[0])
		text = strings.TrimSuffix(string(r), ".") + "."
	}
	if values := f.Tag.Get("enum"); values != "" {
		text = strings.TrimSpace("One of " + strings.ReplaceAll(values, ",", ", ") + ". " + text)
	}
	return text
}

// comments has the comments behind fields, by package, type and field.
var comments = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, dir := range []string{"cmd/outrider", "admin/status", "admin/operate", "admin/console", "adapters", "demo", "internal/buildinfo"} {
		files, _ := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				continue // the compiler says it better
			}
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, id := range f.Names {
							out["github.com/outriderhq/outrider/"+dir+"."+spec.Name.Name+"."+id.Name] = strings.TrimSpace(f.Comment.Text())
						}
					}
				}
				return false
			})
		}
	}
	return out
})

// Programs find each field that they have found before, of the same type: fields are only added, also with -update.
func TestFieldsOfAnswersAreOnlyAdded(t *testing.T) {
	t.Parallel()
	var lines []string
	for path, k := range contracts {
		if k.answer != nil {
			for _, f := range fields(reflect.TypeOf(k.answer), "") {
				lines = append(lines, path+"\t"+f.String())
			}
		}
	}
	slices.Sort(lines)
	file := filepath.Join("testdata", "answers.txt")
	before, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(before)), "\n") {
		if _, found := slices.BinarySearch(lines, line); !found && line != "" {
			t.Errorf("%q is gone or has another type. Programs rely on it: keep it. If it must go, remove its line from %s by hand and say so in CHANGELOG.md", line, file)
		}
	}
	if !t.Failed() {
		golden(t, "answers.txt", strings.Join(lines, "\n")+"\n")
	}
}
