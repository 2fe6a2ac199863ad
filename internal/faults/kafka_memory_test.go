package faults_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/testenv"
)

// fill produces n records, in turn for so many keys.
func (l *log) fill(keys, n int) {
	l.t.Helper()
	const chunk = 50_000
	for from := 0; from < n; from += chunk {
		records := make([]*kgo.Record, min(chunk, n-from))
		for i := range records {
			records[i] = l.record(fmt.Sprint("m", from+i), fmt.Sprint("key", (from+i)%keys))
		}
		must(l.t, l.client.ProduceSync(l.t.Context(), records...).FirstErr())
	}
}

// The memory of a relay depends on what it has in flight, not on how many keys there are. A soak has a million of them.
func TestG7_MemoryWithAMillionKeys(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	full(t)
	records := 100_000
	if soak(t) > 0 {
		records = 1_000_000
	}
	peak := func(keys int) int {
		l, to, db := newLog(t, testenv.Kafka(t)), newCounted(t), newDatabase(t)
		l.fill(keys, records)
		config := strings.Replace(l.config(db.url, to.described), fmt.Sprintf("    window: %d\n", killWindow), "", 1)
		r := start(t, config)
		to.expect(r, records)
		peak := r.peakMiB()
		r.stop()
		if to.arrived() != records {
			t.Errorf("%d keys: %d deliveries of %d records", keys, to.arrived(), records)
		}
		return peak
	}
	few, many := peak(1000), peak(records)
	const bound = memoryBound + lanes // a MiB is read ahead of each partition
	t.Logf("%d records: at most %d MiB resident with 1,000 keys, %d with as many keys, %d bound", records, few, many, bound)
	if many > bound || 2*many > 3*few {
		t.Errorf("%d MiB resident with %d keys, and %d with 1,000: want at most %d, and half as much again", many, records, few, bound)
	}
}
