package http

import "io"

// array reads the JSON array of a request: the items' own bytes, which nothing
// changes, with brackets and commas around them. Nothing is copied but into the
// connection's buffer, and an answer may come while it is still being read.
type array struct {
	items []item // at least one
	begin []byte
	end   []byte
	part  int    // the next one: 2k is what is before item k, 2k+1 the item
	rest  []byte // of the part before it
}

func newArray(items []item, begin, end []byte) *array {
	return &array{items: items, begin: begin, end: end}
}

// arraySize is how many bytes the array has.
func arraySize(items []item, begin, end []byte) int64 {
	size := int64(len(begin) + len(end) + len(items) - 1)
	for _, it := range items {
		size += int64(len(it.body))
	}
	return size
}

// Read implements [io.Reader].
func (a *array) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(a.rest) == 0 && !a.advance() {
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		}
		c := copy(p[n:], a.rest)
		a.rest = a.rest[c:]
		n += c
	}
	return n, nil
}

var (
	arrayBegin, arrayNext, arrayEnd = []byte("["), []byte(","), []byte("]")
	itemsBegin, itemsEnd            = []byte(`{"items":[`), []byte("]}")
)

// advance goes to the next part.
func (a *array) advance() bool {
	k := a.part / 2
	switch {
	case a.part > 2*len(a.items):
		return false
	case a.part%2 == 1:
		a.rest = a.items[k].body
	case k == 0:
		a.rest = a.begin
	case k < len(a.items):
		a.rest = arrayNext
	default:
		a.rest = a.end
	}
	a.part++
	return true
}
