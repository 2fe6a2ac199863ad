package adapters

import (
	"encoding/json"
	"fmt"
	"hash/crc64"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/internal/shorten"
	"github.com/outriderhq/outrider/outbox"
)

// Slots is the number of slots of every source, fixed for the life of a table:
// changing it would move groups between cursors.
const Slots = 16

// MaxLanes is the most lanes of a route, whose source has partitions.
const MaxLanes = 4096

// Row is one outbox row as its source read it. All routes of its source share a
// row, so it is never changed after it was read.
type Row struct {
	ID            string            // event id; becomes the message's UUID
	Kind          string            // of the table that the row comes from, where a source has several kinds (FlowCatalyst: EVENT, DISPATCH_JOB)
	Type          string            // event type
	Group         string            // ordering key; empty: no order wanted
	AggregateType string            // optional
	AggregateID   string            // optional
	Tenant        string            // optional
	Tags          map[string]string // optional
	Headers       map[string]string // optional; become metadata
	Payload       []byte            // as stored, never re-serialised; nil only with Err
	Binary        bool              // the payload is bytes, not JSON
	OccurredAt    time.Time         // zero when the row has none
	CreatedAt     time.Time         // zero when the row has none

	Slot     int   // 0..Slots-1
	Position int64 // grows with the order of insertion; of rows of a queue table: microseconds since 1970 when the row was created
	Late     bool  // the row became visible after its position had been passed
	Newest   int64 // becomes [Anchor].Newest; 0: this row is the newest, as far as it is known

	// Page says which read yielded the row; the cursor after the row
	// follows from it.
	Page *Page

	// Claim identifies the row in the queue table that it was claimed from; nil
	// for rows that were read by cursor.
	Claim *Claim

	// Err is set for a row that cannot be decoded; the other fields hold
	// what could be. Such a row runs through its route like any other, so that
	// order and poison apply, but is dead instead of delivered.
	Err error

	// Undecoded is set with Err if what routes match is not known either: every route takes the row.
	Undecoded bool
}

// Size estimates the memory in bytes that the row's own data holds.
func (r *Row) Size() int {
	n := len(r.ID) + len(r.Type) + len(r.Group) + len(r.AggregateType) +
		len(r.AggregateID) + len(r.Tenant) + len(r.Payload)
	for k, v := range r.Headers {
		n += len(k) + len(v) + 32
	}
	for k, v := range r.Tags {
		n += len(k) + len(v) + 32
	}
	return n
}

// TakeOccurred sets OccurredAt of a row whose table has no column for it: to what its headers say, which then is no header any more, or with
// created to when the row was created.
func (r *Row) TakeOccurred(created bool) (err error) {
	if text, ok := r.Headers[outbox.MetaOccurredAt]; ok {
		delete(r.Headers, outbox.MetaOccurredAt)
		if r.OccurredAt, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return fmt.Errorf("header %s: %w", outbox.MetaOccurredAt, err)
		}
	} else if created {
		r.OccurredAt = r.CreatedAt
	}
	return nil
}

// After returns the cursor behind the row, given that everything
// which its read yielded before it has been settled.
func (r *Row) After() Cursor { return After(r.Page, r.Position, r.Late, r.Anchor()) }

// After is [Row.After] for a row that is no longer kept.
func After(page *Page, position int64, late bool, anchor Anchor) Cursor {
	c := page.From
	if late {
		c.Window, c.Paged, c.Anchor = page.Snapshot, position, c.Anchor.Seen(anchor.Newest)
		return c
	}
	return Cursor{Position: position, Snapshot: page.Snapshot, Base: c.Base, Anchor: anchor}
}

// Page describes one read of one slot: it began at From and saw the table as of
// Snapshot. All rows of the read share it.
type Page struct {
	From     Cursor
	Snapshot string
	At       time.Time // when the read was made; zero: not known
}

// Cursor is a place in a log table: everything visible in Snapshot at or below
// Position has been taken. Sources whose database has a single writer
// leave the snapshot empty. Cursors compare with ==.
//
// While the late rows of a read are being paged the window is open: of the rows
// at or below Position that are visible in Window but not in Snapshot, those
// up to the position Paged have been taken, and nothing newer has.
type Cursor struct {
	Position int64
	Snapshot string
	Window   string // snapshot of the open window of late rows; "" when none is open
	Paged    int64  // meaningful while a window is open
	Base     int64  // rows at or below it never count as late (set by a rebase); 0: there is none, see [Cursor.Floor]
	Anchor   Anchor // the row at Position, as far as it is known
}

// Floor is the base, or, where there is none, below every position: sequences may begin below 0.
func (c Cursor) Floor() int64 {
	if c.Base == 0 {
		return math.MinInt64
	}
	return c.Base
}

// SamePlace reports whether both cover the same rows, whatever is known of the row at their position.
func (c Cursor) SamePlace(other Cursor) bool {
	c.Anchor = other.Anchor
	return c == other
}

// IsZero reports whether the cursor has never been set.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// SlotOf returns the slot of a row for databases that do not compute it
// themselves: FNV-1a of the group or, without one, of the id, so that rows
// without order spread.
func SlotOf(group, id string) int {
	h := fnv.New32a()
	if group == "" {
		group = id
	}
	_, _ = h.Write([]byte(group)) // never fails
	return int(h.Sum32() & (Slots - 1))
}

// NewMessage builds the Watermill message that middleware and destinations
// see. The payload is shared with the row, not copied: middleware that wants
// another payload sets a new slice and leaves the bytes of the old one alone.
func NewMessage(row *Row, lane string) *message.Message {
	msg := message.NewMessage(row.ID, row.Payload)
	msg.Metadata = row.Metadata(lane)
	return msg
}

// Metadata returns the metadata of the row's message, as a map of its own. The
// texts that are made for it share one allocation: this runs once per message.
func (r *Row) Metadata(lane string) message.Metadata {
	meta := make(message.Metadata)
	for k, v := range r.Headers {
		if !strings.HasPrefix(k, outbox.HeaderPrefix) {
			meta[k] = v
		}
	}
	var room [64]byte
	made := strconv.AppendInt(room[:0], r.Position, 10)
	digits := len(made)
	if !r.OccurredAt.IsZero() {
		made = r.OccurredAt.UTC().AppendFormat(made, time.RFC3339Nano)
	}
	texts := string(made)
	meta[outbox.MetaType] = r.Type
	meta[outbox.MetaPosition] = texts[:digits]
	meta[outbox.MetaLane] = lane
	setNonEmpty(meta, outbox.MetaKind, r.Kind)
	setNonEmpty(meta, outbox.MetaGroup, r.Group)
	setNonEmpty(meta, outbox.MetaAggregateType, r.AggregateType)
	setNonEmpty(meta, outbox.MetaAggregateID, r.AggregateID)
	setNonEmpty(meta, outbox.MetaTenant, r.Tenant)
	setNonEmpty(meta, outbox.MetaOccurredAt, texts[digits:])
	if r.Err != nil {
		meta[outbox.MetaBroken] = shorten.Text(r.Err.Error())
	}
	if r.Binary {
		meta[outbox.MetaEncoding] = outbox.EncodingBytes
	}
	if len(r.Tags) > 0 {
		// A map of strings cannot fail to encode.
		tags, _ := json.Marshal(r.Tags)
		meta[outbox.MetaTags] = string(tags)
	}
	return meta
}

func setNonEmpty(meta message.Metadata, key, value string) {
	if value != "" {
		meta[key] = value
	}
}

// PayloadOf returns a message's payload for a destination. An empty payload is
// never nil, because some receivers treat nil as none (for Kafka it deletes the
// key).
func PayloadOf(msg *message.Message) []byte {
	if msg.Payload == nil {
		return []byte{}
	}
	return msg.Payload
}

// Anchor is what the row at a cursor's position is known by. A table that was put
// back to an earlier state gives out its positions a second time; when it has come
// to the cursor's again, another row is there. As long as the row is the same, all
// positions up to it were given out before the table was put back, so that rows
// written since are above the cursor, and are delivered.
//
// The zero value is that of a cursor at whose position no row was seen. [Anchor.Matches] compares
// them.
type Anchor struct {
	Slot int    // of the row, which can be another than the cursor's
	Born int64  // when it was created, in microseconds since 1970; 0: not known
	Sum  uint64 // of its id and, when it is not known when it was created, of its payload; never 0

	// Newest is the newest time of creation of all rows that the source had read when the cursor came here, in
	// microseconds since 1970; 0: not known. A row that the cursor covers and that is newer was not there then.
	Newest int64
}

// IsZero reports whether no row is known.
func (a Anchor) IsZero() bool { return a == Anchor{} }

// Matches reports whether the row that is there now, whose anchor this is, can be the one of
// the other anchor. The slot takes no part: positions
// are unique, and in tables of others the slot depends on which column is the group.
// Nor does anything when only one knows when its row was created: the column was
// added to the configuration, or removed from it. A row that was dated ahead may have been
// given an earlier date since: a row that was written later does not have the same id and an earlier date.
func (a Anchor) Matches(b Anchor) bool {
	if (a.Born == 0) != (b.Born == 0) {
		return true
	}
	return a.Born <= b.Born && a.Sum == b.Sum
}

// Seen is the anchor after more rows were read, the newest of which was created then.
func (a Anchor) Seen(newest int64) Anchor {
	if a.Born != 0 {
		a.Newest = max(a.Newest, newest)
	}
	return a
}

// Anchor returns what the row is known by. It is made for every row that is
// delivered, so it reads no more than it must: with the time of creation the
// payload takes no part.
func (r *Row) Anchor() Anchor {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	sum := uint64(offset)
	for i := range len(r.ID) {
		sum = (sum ^ uint64(r.ID[i])) * prime
	}
	a := Anchor{Slot: r.Slot}
	switch {
	case !r.CreatedAt.IsZero():
		a.Born = r.CreatedAt.UnixMicro()
		a.Newest = max(a.Born, r.Newest)
	case r.Err == nil: // otherwise what is there depends on the configuration
		sum = crc64.Update(sum, crcTable, r.Payload)
	}
	a.Sum = max(sum, 1)
	return a
}

var crcTable = crc64.MakeTable(crc64.ECMA)
