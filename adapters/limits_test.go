package adapters_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/outriderhq/outrider/adapters"
)

func TestCutKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	if short := strings.Repeat("é", 512); shorten.Text(short) != short {
		t.Error("1 KiB was cut")
	}
	for pad := range 4 {
		text := strings.Repeat("x", pad) + strings.Repeat("日", 1000)
		got := shorten.Text(text)
		if len(got) > 1<<10 || len(got) < 1<<10-4 || !utf8.ValidString(got) || !strings.HasSuffix(got, "日... (cut)") {
			t.Errorf("cut to %d bytes: ...%s", len(got), got[len(got)-20:])
		}
	}
	if got := shorten.Text(strings.Repeat("\x80", 5000)); got != "... (cut)" {
		t.Errorf("nothing but bytes of no character: %d bytes", len(got))
	}
}

func TestPairsAreCountedAndMeasured(t *testing.T) {
	t.Parallel()
	object := func(n int) []byte {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `, "\"%d": {"inner": [1, {"a": ":}\\"}]}`, i)
		}
		return []byte("{" + strings.TrimPrefix(b.String(), ",") + "}")
	}
	if err := adapters.CheckPairs(object(adapters.MaxRowPairs)); err != nil {
		t.Error(err)
	}
	for _, text := range [][]byte{object(adapters.MaxRowPairs + 1), []byte(`{"k": "` + strings.Repeat("v", adapters.MaxRowMetadataBytes) + `"}`)} {
		if err := adapters.CheckPairs(text); !errors.Is(err, adapters.ErrTooLarge) {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}
