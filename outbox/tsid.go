package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A TSID is a 64-bit number that ascends with time, written as 13 characters of
// Crockford's base 32: 42 bits of milliseconds since [TSIDEpoch], 10 bits of a
// node and 12 bits of a counter. FlowCatalyst's outbox rows have them as keys.
const (
	tsidLength      = 13
	tsidNodeBits    = 10
	tsidCounterBits = 12
	tsidAlphabet    = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

	// TSIDNodes is the number of distinct nodes of TSIDs.
	TSIDNodes = 1 << tsidNodeBits
)

// TSIDEpoch is the time that TSIDs count from, in Unix milliseconds: the
// beginning of 2020, as in the usual libraries.
const TSIDEpoch = 1_577_836_800_000

// TSIDs generates TSIDs, each greater than the one before it. It is safe for
// concurrent use. Create it with [NewTSIDs], once per process.
type TSIDs struct {
	node uint64
	now  func() time.Time

	mu   sync.Mutex
	last uint64 // milliseconds and counter of the last one, without the node
}

// NewTSIDs returns a generator of TSIDs for a node from 0 to [TSIDNodes]-1. Two
// processes that write at the same time must not share a node, or two of their
// ids can be equal, which fails the later transaction. A negative node selects
// a random one, which suits only a few processes: with ten, two share a node in
// one case of 23, and then one millisecond in 4096 of those in which both write
// has an equal id.
func NewTSIDs(node int) (*TSIDs, error) {
	if node >= TSIDNodes {
		return nil, fmt.Errorf("outbox: a TSID's node is from 0 to %d, not %d", TSIDNodes-1, node)
	}
	t := &TSIDs{node: uint64(node), now: time.Now}
	if node < 0 {
		t.node = random(tsidNodeBits)
	}
	return t, nil
}

// random returns so many random bits.
func random(bits int) uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:]) >> (64 - bits)
}

// Next returns the next TSID. In a new millisecond the counter begins at a
// random place of its lower half. While the clock is behind the last id, time
// continues with the counter alone; a counter that is used up takes the next
// millisecond.
func (t *TSIDs) Next() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ms := t.now().UnixMilli() - TSIDEpoch
	next := t.last + 1
	if ms > int64(t.last>>tsidCounterBits) {
		next = uint64(ms)<<tsidCounterBits | random(tsidCounterBits-1)
	}
	if ms < 0 && t.last == 0 || next>>(42+tsidCounterBits) != 0 {
		return "", errors.New("outbox: the clock is outside of what a TSID can hold (2020 to 2159); set it")
	}
	t.last = next
	const counter = 1<<tsidCounterBits - 1
	return formatTSID((next>>tsidCounterBits)<<(tsidNodeBits+tsidCounterBits) | t.node<<tsidCounterBits | next&counter), nil
}

// formatTSID writes the number, highest bits first.
func formatTSID(n uint64) string {
	var b [tsidLength]byte
	for i := tsidLength - 1; i >= 0; i-- {
		b[i] = tsidAlphabet[n&31]
		n >>= 5
	}
	return string(b[:])
}

// CheckTSID returns an error for text that is no TSID as it is stored: 13
// characters of Crockford's base 32 in upper case, of which the first is at
// most F, because 65 bits would be one too many.
func CheckTSID(id string) error {
	if len(id) != tsidLength {
		return fmt.Errorf("is no TSID: %d characters instead of %d", len(id), tsidLength)
	}
	for i := range len(id) {
		if strings.IndexByte(tsidAlphabet, id[i]) < 0 {
			return fmt.Errorf("is no TSID: character %d is none of 0-9 and A-Z without I, L, O and U", i+1)
		}
	}
	if id[0] > 'F' {
		return errors.New("is no TSID: the first character is greater than F")
	}
	return nil
}

// TSIDTime returns the creation time of a TSID, in milliseconds.
func TSIDTime(id string) (time.Time, error) {
	if err := CheckTSID(id); err != nil {
		return time.Time{}, err
	}
	var n uint64
	for i := range len(id) {
		n = n<<5 | uint64(strings.IndexByte(tsidAlphabet, id[i]))
	}
	return time.UnixMilli(int64(n>>(tsidNodeBits+tsidCounterBits)) + TSIDEpoch).UTC(), nil
}
