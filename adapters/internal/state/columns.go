package state

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Columns are a parked message as the columns of its table keep it.
type Columns struct {
	Group                                    string // empty: none
	Status, Error, ID, Type, Metadata, Tries string
	Due                                      *time.Time
	Failure                                  *int64
	Payload                                  []byte // never nil
}

// ColumnsOf are the columns of a message of a route.
func ColumnsOf(route string, p *adapters.Parked) Columns {
	c := Columns{Group: PackGroup(p.Group), Status: string(p.Status), Error: Clean(p.LastError), ID: Pack(p.ID), Type: Pack(p.Type),
		Metadata: EncodeMetadata(p.Metadata), Tries: EncodeTries(p.Tries), Failure: FailureColumn(route, p), Payload: p.Payload}
	if !p.NextAttemptAt.IsZero() {
		c.Due = &p.NextAttemptAt
	}
	if c.Payload == nil {
		c.Payload = []byte{} // empty, not NULL
	}
	return c
}

// DueMicros is Due for a column of microseconds; nil: none.
func (c *Columns) DueMicros() any {
	if c.Due == nil {
		return nil
	}
	return c.Due.UnixMicro()
}

// ScanLane reads a lane as Acquire loads it, from route, slot, updated_at IS NULL, position, snapshot, window_snapshot, paged, base,
// beyond, next_seq, epoch, revision, cluster, source, anchor and commands.
func ScanLane(scan func(...any) error) (l adapters.LaneState, err error) {
	var beyond, anchor string
	c := &l.Cursor
	err = scan(&l.Route, &l.Slot, &l.New, &c.Position, &c.Snapshot, &c.Window, &c.Paged, &c.Base,
		&beyond, &l.NextSeq, &l.Epoch, &l.Revision, &l.Table.Cluster, &l.Table.Name, &anchor, &l.Commands)
	if err == nil {
		err = ReadAnchorText(anchor, c, &l.Table)
	}
	if err == nil {
		l.Beyond, err = ParseBeyond(l.LaneRef, beyond)
	}
	return l, err
}
