package adapters

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/outbox"
)

func explode(how string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Recovered("the test", r)
		}
	}()
	var missing []int
	switch how {
	case "value":
		panic("boom")
	case "error":
		panic(context.Canceled) // says nothing about who called off what
	default:
		missing[0] = 1
	}
	return nil
}

func TestAPanicIsATransientErrorWithItsPlace(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"value":   "boom",
		"error":   "context canceled",
		"runtime": "index out of range",
	} {
		err := explode(how)
		p, ok := errors.AsType[*PanicError](err)
		if !ok {
			t.Fatalf("%s: got %v", how, err)
		}
		if outbox.KindOf(err) != outbox.KindTransient || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %s error %q", how, outbox.KindOf(err), err)
		}
		if !strings.HasPrefix(p.Place, "panic_test.go:") || !strings.Contains(p.Stack, "explode") {
			t.Errorf("%s: at %s, with the stack\n%s", how, p.Place, p.Stack)
		}
	}
}
