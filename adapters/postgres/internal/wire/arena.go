package wire

import (
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// chunkSize is what rows share one allocation of. A row keeps its chunk alive,
	// and those that wait for an address that hangs are few of many: a chunk is no
	// more than what one of them takes anyway, a few times over.
	chunkSize = 16 << 10

	// ownSize is the size from which data gets an allocation of its own.
	ownSize = chunkSize / 8

	// slabRows is how many rows share one allocation.
	slabRows = 32

	// internLimit bounds the interned strings; sources have a few dozen types.
	internLimit = 1024
)

// textArena copies text out of the network buffer into chunks. A builder that
// is never grown past its capacity never moves what was returned before.
type textArena struct{ b strings.Builder }

// Copy returns text as a string.
func (a *textArena) Copy(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if len(text) >= ownSize {
		return string(text)
	}
	if a.b.Len()+len(text) > a.b.Cap() {
		a.b = strings.Builder{}
		a.b.Grow(chunkSize)
	}
	start := a.b.Len()
	a.b.Write(text)
	return a.b.String()[start:]
}

// byteArena copies payloads out of the network buffer into chunks.
type byteArena struct{ chunk []byte }

// Copy returns a copy of data whose capacity ends with it.
func (a *byteArena) Copy(data []byte) []byte {
	if len(data) == 0 {
		return []byte{} // not a part of a chunk that is not there yet, which is nil
	}
	if len(data) >= ownSize {
		return append(make([]byte, 0, len(data)), data...)
	}
	if len(a.chunk)+len(data) > cap(a.chunk) {
		a.chunk = make([]byte, 0, chunkSize)
	}
	start := len(a.chunk)
	a.chunk = append(a.chunk, data...)
	return a.chunk[start:len(a.chunk):len(a.chunk)]
}

// rowSlab hands out rows that share allocations.
type rowSlab struct{ rows []adapters.Row }

// Next returns an empty row for so many bytes. One with much data has an
// allocation of its own: the others of its slab would keep it alive.
func (s *rowSlab) Next(bytes int) *adapters.Row {
	if bytes >= ownSize {
		return new(adapters.Row)
	}
	if len(s.rows) == 0 {
		s.rows = make([]adapters.Row, slabRows)
	}
	row := &s.rows[0]
	s.rows = s.rows[1:]
	return row
}
