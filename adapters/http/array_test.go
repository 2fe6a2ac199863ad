package http

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestArrayReadsTheItems(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 1e9), 0, 50), 1, 20).Draw(t, "bodies")
		items := make([]item, len(bodies))
		for i, b := range bodies {
			items[i].body, _ = json.Marshal(b)
		}
		want, _ := json.Marshal(bodies)
		if err := iotest.TestReader(newArray(items, arrayBegin, arrayEnd), want); err != nil {
			t.Fatal(err)
		}
		if got := arraySize(items, arrayBegin, arrayEnd); got != int64(len(want)) {
			t.Fatalf("%d bytes are announced, %d read", got, len(want))
		}
		if got, err := io.ReadAll(iotest.OneByteReader(newArray(items, arrayBegin, arrayEnd))); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("byte by byte: %v, %s", err, got)
		}
	})
}
