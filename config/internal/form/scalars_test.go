package form

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestScalars reads texts and writes them back. An empty want is an error.
func TestScalars(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		into interface {
			Scalar
			fmt.Stringer
		}
		text, want string
	}{
		{new(Duration), "30s", "30s"}, {new(Duration), "1h30m", "1h30m"}, {new(Duration), "7d", "7d"},
		{new(Duration), "1d12h", "36h"}, {new(Duration), "1.5s", "1.5s"}, {new(Duration), "0s", "0s"},
		{new(Duration), "60s", "1m"}, {new(Duration), "3600s", "1h"}, {new(Duration), "100us", "100µs"},
		{new(Duration), "", ""}, {new(Duration), "5", ""}, {new(Duration), "-5s", ""}, {new(Duration), "1w", ""},
		{new(Duration), "999999d", ""}, {new(Duration), "99999999999h", ""}, {new(Duration), "106751d24h", ""},
		{new(Size), "64MiB", "64MiB"}, {new(Size), "1MB", "1000000B"}, {new(Size), "1.5KiB", "1536B"}, {new(Size), "0B", "0B"},
		{new(Size), "64", ""}, {new(Size), "64M", ""}, {new(Size), "-1B", ""}, {new(Size), "999999999999999TiB", ""},
		{new(Rate), "500/s", "500/s"}, {new(Rate), "30/m", "30/m"}, {new(Rate), "1000/h", "1000/h"},
		{new(Rate), "0/s", ""}, {new(Rate), "500", ""}, {new(Rate), "5/d", ""},
	} {
		err := test.into.Parse(test.text)
		if got := test.into.String(); (err != nil) != (test.want == "") || err == nil && got != test.want {
			t.Errorf("%T of %q = %q, %v, want %q", test.into, test.text, got, err, test.want)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Duration(rapid.Int64Range(0, int64(1000*24*time.Hour)).Draw(t, "ns"))
		var got Duration
		if err := got.Parse(want.String()); err != nil || got != want {
			t.Fatalf("%d writes %q, which reads %d, %v", want, want, got, err)
		}
	})
}

func TestSizeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Size(rapid.Int64Range(0, 1<<44).Draw(t, "bytes"))
		var got Size
		if err := got.Parse(want.String()); err != nil || got != want {
			t.Fatalf("%d writes %q, which reads %d, %v", want, want, got, err)
		}
	})
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"tabel": "table", "tabl": "table", "Table": "table", "url": "", "attepmts": "attempts", "x": "", "": "",
	} {
		if got := Nearest(name, []string{"table", "layout", "attempts"}); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestSecretURLString(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                 "",
		"state.db":                         "state.db",
		"/var/lib/outrider/state.db":       "/var/lib/outrider/state.db",
		"postgres://db/app":                "postgres://db/app",
		"postgres://bob@db:5432/app?a=b":   "postgres://bob@db:5432/app?***",
		"postgres://bob:hunter2@db/app":    "postgres://bob:***@db/app",
		"postgres://:hunter2@db/app":       "postgres://:***@db/app",
		"host=db password=hunter2":         masked,
		"file:state.db?_key=hunter2":       masked,
		"postgres://bob:hunter2@db:bad/at": masked,
	} {
		if got := NewSecretURL(in).String(); got != want {
			t.Errorf("%q prints as %q, want %q", in, got, want)
		}
	}
}
