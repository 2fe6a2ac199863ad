package outbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestQuoteTable(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"outbox": `"outbox"`, "app.outbox": `"app"."outbox"`, "App.Select": `"App"."Select"`, "été-1": `"été-1"`,
	} {
		if got, err := quoteTable(name, PostgreSQL); err != nil || got != want {
			t.Errorf("%s: got %s (%v), want %s", name, got, err, want)
		}
	}
	if _, err := quoteTable(strings.Repeat("t", 64), SQLite); err != nil {
		t.Errorf("SQLite keeps long names: %v", err)
	}
}

func TestArrayLiteralQuotesEverything(t *testing.T) {
	t.Parallel()
	var a arrayLiteral
	if got := a.String(); got != "{}" {
		t.Errorf("an empty array is %s", got)
	}
	for _, s := range []string{"", "NULL", `a"b`, `c\d`, "{,}"} {
		a.add(s)
	}
	a.addOrNull("")
	a.addOrNull("x")
	if got, want := a.String(), `{"","NULL","a\"b","c\\d","{,}",NULL,"x"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// stateError is an error of a driver that is not pgx.
type stateError string

func (stateError) Error() string      { return "the server's words" }
func (e stateError) SQLState() string { return string(e) }

func TestFixesGoBySQLStateWithAnyDriver(t *testing.T) {
	t.Parallel()
	c := &Client{dialect: PostgreSQL, table: `"t"`}
	for state, want := range map[string]string{
		"42P01": "outrider init", "42804": "another layout", "42501": `GRANT INSERT ON "t"`, "22P05": "encoding UTF8",
	} {
		err := c.explain(fmt.Errorf("driver: %w", stateError(state)))
		if !strings.Contains(err.Error(), "the server's words; ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", state, err, want)
		}
	}
	if err := error(stateError("40001")); !errors.Is(c.explain(err), err) || c.explain(err).Error() != err.Error() {
		t.Errorf("an error without a remedy became %v", c.explain(err))
	}
}
