package form

import (
	"fmt"
	"testing"
)

// A key of a mapping is found at once, however many there are: a file with 20,000 routes was looked through for each of them.
func TestAKeyIsFoundAmongAnyNumber(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, fewEntries, fewEntries + 1, 300_000} { // squared, the last one would not end
		mapping := &node{kind: mappingNode}
		for i := range n {
			key := &node{text: fmt.Sprint("route-", i)}
			if mapping.get(key.text) != nil {
				t.Fatalf("%s is there before it was added", key.text)
			}
			mapping.add(entry{key: key})
		}
		for i := range n {
			if e := mapping.get(fmt.Sprint("route-", i)); e == nil || e != &mapping.entries[i] {
				t.Fatalf("key %d of %d was not found", i, n)
			}
		}
	}
}
