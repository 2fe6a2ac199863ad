package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// as is a context of a caller.
func as(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{caller: c})
}

// A caller's slow searches keep neither others' searches out for long nor each other's answers back for ever.
func TestSearchesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Console{}
		one, other := as(t.Context(), Caller{Token: "1"}), as(t.Context(), Caller{Token: "2"})
		slow := func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("a query: %w", ctx.Err())
		}
		answers := make(chan error, 60)
		for range 60 {
			go func() { answers <- c.search(one, slow) }()
		}
		synctest.Wait()
		if n := len(c.searches.turns("", searchesMost)); n != searchesEach {
			t.Errorf("%d searches of one caller at a time, want %d", n, searchesEach)
		}
		if err := c.search(other, func(context.Context) error { return nil }); err != nil {
			t.Errorf("another caller's: %v", err)
		}
		status := map[int]int{}
		for range 60 {
			status[StatusOf(<-answers)]++
		}
		if status[http.StatusTooManyRequests] != 60-searchesEach || status[http.StatusServiceUnavailable] != searchesEach {
			t.Errorf("answers by status: %v", status)
		}
		failed := errors.New("no")
		if err := c.search(one, func(context.Context) error { return failed }); !errors.Is(err, failed) || len(c.searches.turns("", searchesMost)) != 0 {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// A name cannot be taken for another caller's, and never hides the token.
func TestG12_ANameDoesNotHideTheToken(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"alice":               "alice by API, token 1a2b3c4d",
		"":                    "unnamed by API, token 1a2b3c4d",
		"bob, token ffffffff": `"bob, token ffffffff" by API, token 1a2b3c4d`,
		"bob\n2026":           `"bob\n2026" by API, token 1a2b3c4d`,
	} {
		if got := (Caller{Token: "1a2b3c4d"}).Author(name); got != want {
			t.Errorf("the author of %q is %q, want %q", name, got, want)
		}
	}
	for _, r := range []string{"a", "é", "\x00", "\U000e0001"} {
		long := strings.Repeat(r, 2000)
		for _, got := range []string{(Caller{Token: "1a2b3c4d"}).Author(long), (Caller{Token: "1a2b3c4d", Name: long}).pageAuthor()} {
			if n := len(got); n > 1000 || got[n-8:] != "1a2b3c4d" {
				t.Errorf("%q: the author has %d bytes and ends with %q", r, n, got[n-8:])
			}
		}
	}
}
