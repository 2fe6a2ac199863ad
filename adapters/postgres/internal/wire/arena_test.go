package wire

import (
	"strings"
	"testing"
)

func TestG7_RowsPinLittle(t *testing.T) {
	t.Parallel()
	var texts textArena
	var payloads byteArena
	first := payloads.Copy([]byte("abc"))
	_ = payloads.Copy([]byte("def"))
	if _ = append(first, 'x'); cap(first) != 3 {
		t.Error("a payload's slice reaches into its peer")
	}
	big := payloads.Copy(make([]byte, 1<<20))
	if cap(big) != 1<<20 || cap(payloads.chunk) != chunkSize {
		t.Errorf("a big payload has %d bytes, the chunk %d", cap(big), cap(payloads.chunk))
	}
	var kept []string
	for i := range 100_000 {
		kept = append(kept, texts.Copy([]byte(strings.Repeat(string(rune('a'+i%26)), 1+i%40))))
	}
	for i, s := range kept {
		if s != strings.Repeat(string(rune('a'+i%26)), 1+i%40) {
			t.Fatalf("text %d became %q", i, s)
		}
	}
	if texts.b.Cap() > 2*chunkSize {
		t.Errorf("a chunk grew to %d bytes", texts.b.Cap())
	}
}
