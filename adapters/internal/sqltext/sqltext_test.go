package sqltext

import (
	"slices"
	"strings"
	"testing"
)

func TestStatementsAreFilledOnce(t *testing.T) {
	t.Parallel()
	dollar := Dialect{Param: Dollar, Value: func(v any) any {
		if n, is := v.(int); is {
			return n * 10
		}
		return v
	}}
	s := dollar.New(`SELECT {key}, '{}', '{"a": 1}' FROM {table} WHERE {key} = ?`, Names{"key": `"a?{table}"`, "table": `"t"`}, 1)
	s.And(" AND b IN (?, ?)", "{key}", 2).And(" ORDER BY {key}")
	if want := `SELECT "a?{table}", '{}', '{"a": 1}' FROM "t" WHERE "a?{table}" = $1 AND b IN ($2, $3) ORDER BY "a?{table}"`; s.SQL() != want {
		t.Errorf("got  %s\nwant %s", s.SQL(), want)
	}
	if want := []any{10, "{key}", 20}; !slices.Equal(s.Args, want) {
		t.Errorf("arguments %v, want %v", s.Args, want)
	}
	q := Dialect{Param: Question}.New("a = ? AND b = ?", nil, 1, 2)
	if q.SQL() != "a = ? AND b = ?" || len(q.Args) != 2 {
		t.Errorf("%s with %v", q.SQL(), q.Args)
	}
	if got := Fill("{x} ? {", Names{"x": "?"}); got != "? ? {" {
		t.Errorf("filled %q", got)
	}
}

func TestMistakesInTemplates(t *testing.T) {
	t.Parallel()
	d := Dialect{Param: Question}
	for want, f := range map[string]func(){
		"unknown name {tabel}":                func() { Fill("{tabel}", Names{"table": "t"}) },
		"unknown name {column}":               func() { d.New("?", nil, 1).And("{column}") },
		"1 arguments for the 2 parameters":    func() { d.New("? = ?", nil, 1) },
		"2 arguments for the 1 parameters":    func() { d.New("true", nil).And("?", 1, 2) },
		"1 arguments for the 0 parameters of": func() { d.New("'{}'", nil, 1) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("panicked with %q, want %q", text, want)
				}
			}()
			f()
		}()
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	text := Fill("UPDATE {table} SET a = {:a} WHERE k IN ({:keys}) AND a <> {:a}", Names{"table": "`{:x} {y}`"})
	query, args := Bind(text, Args{"keys": []any{1, "{:a}", nil}, "a": nil, "unused": 5})
	if want := "UPDATE `{:x} {y}` SET a = ? WHERE k IN (?, ?, ?) AND a <> ?"; query != want {
		t.Errorf("got  %s\nwant %s", query, want)
	}
	if want := []any{nil, 1, "{:a}", nil, nil}; !slices.Equal(args, want) {
		t.Errorf("arguments %v, want %v", args, want)
	}
	if query, args := Bind("{:", nil); query != "{:" || args != nil {
		t.Errorf("bound %q with %v", query, args)
	}
}
