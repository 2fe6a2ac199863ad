package pg

import (
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// chunkSize is what rows share one allocation of. A row keeps its chunk alive,
	// and those that wait for an address that hangs are few of many: a chunk is no
	// more than what one of them takes anyway, a few times over.
	ChunkSize = 16 << 10

	// ownSize is the size from which data gets an allocation of its own.
	ownSize = ChunkSize / 8

	// slabRows is how many rows share one allocation.
	slabRows = 32

	// internLimit bounds the interned strings; sources have a few dozen types.
	internLimit = 1024
)

// TextArena copies text out of the network buffer into chunks. A builder that
// is never grown past its capacity never moves what was returned before.
type TextArena struct{ B strings.Builder }

// Copy returns text as a string.
func (a *TextArena) Copy(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if len(text) >= ownSize {
		return string(text)
	}
	if a.B.Len()+len(text) > a.B.Cap() {
		a.B = strings.Builder{}
		a.B.Grow(ChunkSize)
	}
	start := a.B.Len()
	a.B.Write(text)
	return a.B.String()[start:]
}

// ByteArena copies payloads out of the network buffer into chunks.
type ByteArena struct{ Chunk []byte }

// Copy returns a copy of data whose capacity ends with it.
func (a *ByteArena) Copy(data []byte) []byte {
	if len(data) == 0 {
		return []byte{} // not a part of a chunk that is not there yet, which is nil
	}
	if len(data) >= ownSize {
		return append(make([]byte, 0, len(data)), data...)
	}
	if len(a.Chunk)+len(data) > cap(a.Chunk) {
		a.Chunk = make([]byte, 0, ChunkSize)
	}
	start := len(a.Chunk)
	a.Chunk = append(a.Chunk, data...)
	return a.Chunk[start:len(a.Chunk):len(a.Chunk)]
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
