package lane

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// A note has notesMost deliveries: each takes at most 12 bytes, and all of them, in base64, fit into [adapters.NoteMost]. Those of the session
// may be ownMost, so that those of its predecessor, as many at most, fit beside a batch.
const (
	notesMost = 240
	ownMost   = 160
	onceBatch = notesMost - ownMost
)

// ledger has the deliveries of a lane that receivers have committed and that are perhaps not settled: those of its session, and those that
// former sessions have noted. The session's mutex guards it.
//
// A delivery is known by the position of its row, which a message keeps when it is parked, and by a checksum: after a restore another row
// may have the position.
type ledger struct {
	session    *Session
	deliveries map[int64]*delivery
	sent       map[int64]*delivery // by the transaction that is under way, or whose outcome was not learned
	read       bool                // the notes of former sessions are read
	given      []uint64            // of each stream, the rows that were there when all that was visible had come; nil: it has not
}

// delivery is one that is committed.
type delivery struct {
	address string
	check   uint16
	former  bool    // noted by a former session, and its row has not come yet: it is settled, or comes soon, late, or from the parking
	stream  *Stream // that settles it; nil: it has not ended
	settle  int64   // number of the settle that writes its end at the latest
}

func newLedger(s *Session) *ledger {
	return &ledger{session: s, deliveries: map[int64]*delivery{}, sent: map[int64]*delivery{}}
}

// identity returns the position of the item's row and a checksum of it.
func (it *Item) identity() (position int64, check uint16) {
	var payload []byte
	if it.row != nil {
		position, payload = it.row.Position, it.row.Payload
	} else {
		position, payload = it.content.position, it.content.payload
	}
	sum := crc32.Update(crc32.ChecksumIEEE([]byte(it.id())), crc32.IEEETable, payload)
	return position, uint16(sum ^ sum>>16)
}

// begin notes what a transaction is about to deliver.
func (l *ledger) begin(address string, it *Item) {
	position, check := it.identity()
	l.sent[position] = &delivery{address: address, check: check}
}

// commit takes what the transaction has delivered.
func (l *ledger) commit() {
	maps.Copy(l.deliveries, l.sent)
	clear(l.sent)
}

// meet reports whether the row of an item was delivered.
func (l *ledger) meet(it *Item) bool {
	position, check := it.identity()
	d := l.deliveries[position]
	switch {
	case d == nil:
		return false
	case d.check != check: // the position was given to another row
		delete(l.deliveries, position)
		return false
	}
	d.former = false
	return true
}

// leave notes that an item is settled in memory.
func (l *ledger) leave(it *Item) {
	position, _ := it.identity()
	delete(l.sent, position) // it does not matter any more whether that was committed
	if d := l.deliveries[position]; d != nil {
		d.stream = l.session.progress.streamOf(it)
		d.settle = d.stream.revision + 1
	}
}

// prune forgets what is durably settled.
func (l *ledger) prune() {
	maps.DeleteFunc(l.deliveries, func(_ int64, d *delivery) bool { return d.stream != nil && d.stream.confirmed >= d.settle })
}

// forget forgets what former sessions have noted and settled, too. It is asked after each poll: when all rows that were visible at one time have been
// given to the session and are settled, and nothing is parked, no further row of them comes.
func (l *ledger) forget() {
	streams := l.session.progress.streams
	if l.given == nil {
		if slices.ContainsFunc(streams, func(str *Stream) bool { return !str.whole }) {
			return
		}
		for _, str := range streams {
			l.given = append(l.given, str.tail)
		}
	}
	for i, str := range streams {
		if str.head < l.given[i] {
			return
		}
	}
	if len(l.session.parking.groups.All()) == 0 {
		maps.DeleteFunc(l.deliveries, func(_ int64, d *delivery) bool { return d.former })
	}
}

// generation is that of the lane's cursors; durable: the state store has it.
func (l *ledger) generation() (latest int64, durable bool) {
	durable = true
	for _, str := range l.session.progress.streams {
		mine := adapters.LaneMark{Revision: str.revision}.Generation()
		latest = max(latest, mine)
		durable = durable && mine == adapters.LaneMark{Revision: str.confirmed}.Generation()
	}
	return latest, durable
}

// own counts the deliveries of an address that its note has to have.
func (l *ledger) own(address string) (n int) {
	for _, d := range l.deliveries {
		if d.address == address && !d.former {
			n++
		}
	}
	return n
}

// note returns the note of an address: the session's deliveries, and of those of former sessions as many as fit, the highest first.
func (l *ledger) note(address string) string {
	all := maps.Clone(l.deliveries)
	maps.Copy(all, l.sent)
	maps.DeleteFunc(all, func(_ int64, d *delivery) bool { return d.address != address })
	positions := slices.SortedFunc(maps.Keys(all), func(a, b int64) int {
		switch {
		case all[a].former == all[b].former:
			return cmp.Compare(b, a)
		case all[a].former:
			return 1
		}
		return -1
	})
	positions = positions[:min(len(positions), notesMost)]
	slices.Sort(positions)
	generation, _ := l.generation()
	text := binary.AppendVarint(nil, generation)
	last := int64(0)
	for _, position := range positions {
		text = binary.AppendVarint(text, position-last)
		text = binary.BigEndian.AppendUint16(text, all[position].check)
		last = position
	}
	return base64.RawStdEncoding.EncodeToString(text)
}

// decode returns the deliveries of a note; none if its cursors were placed elsewhere since, or another program has written it.
func (l *ledger) decode(note string) map[int64]uint16 {
	text, err := base64.RawStdEncoding.DecodeString(note)
	generation, n := binary.Varint(text)
	if now, _ := l.generation(); err != nil || n <= 0 || generation != now {
		return nil
	}
	out := map[int64]uint16{}
	for position := int64(0); ; {
		text = text[n:]
		var delta int64
		if delta, n = binary.Varint(text); n <= 0 || len(text) < n+2 {
			return out
		}
		position += delta
		out[position] = binary.BigEndian.Uint16(text[n:])
		n += 2
	}
}

// take reads the notes by address. The first ones are those of former sessions, of which it returns how many deliveries they have that may not be
// settled; later ones say how a transaction has ended.
func (l *ledger) take(notes map[string]string) (known int) {
	first := !l.read
	l.read = true
	for address, note := range notes {
		for position, check := range l.decode(note) {
			d := l.sent[position]
			if first && !l.settled(position) {
				d = &delivery{former: true}
			}
			if d != nil {
				d.address, d.check = address, check
				l.deliveries[position] = d
				known++
			}
		}
	}
	clear(l.sent)
	return known
}

// settled reports whether the state store has a position as settled behind the cursor.
func (l *ledger) settled(position int64) bool {
	return slices.ContainsFunc(l.session.progress.streams, func(str *Stream) bool {
		_, settled := str.skip[position]
		return settled
	})
}
