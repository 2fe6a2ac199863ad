package state

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// subject is the subject of an operation, as its column keeps it. Texts are packed.
type subject struct {
	Route   string     `json:"route,omitempty"`
	Group   string     `json:"group,omitempty"`
	ID      string     `json:"id,omitempty"`
	Status  string     `json:"status,omitempty"`
	Type    string     `json:"type,omitempty"`
	Error   string     `json:"error,omitempty"`
	Failure int64      `json:"failure,omitempty"`
	Before  *time.Time `json:"before,omitempty"`
	Limit   int        `json:"limit,omitempty"`
	All     bool       `json:"all,omitempty"`
	Sources []string   `json:"sources,omitempty"`
	Routes  []string   `json:"routes,omitempty"`
	To      string     `json:"to,omitempty"`
}

// place is how far an operation is, as its column keeps it.
type place struct {
	Parked     *parkedPlace `json:"parked,omitempty"`
	ParkedOver bool         `json:"parked_over,omitempty"`
	Source     int          `json:"source,omitempty"`
	Dead       *deadPlace   `json:"dead,omitempty"`
	Route      int          `json:"route,omitempty"`
	Pending    []deadPlace  `json:"pending,omitempty"`
}

type parkedPlace struct {
	Route string `json:"route"`
	Slot  int    `json:"slot"`
	Seq   int64  `json:"seq"`
}

type deadPlace struct {
	Table   string `json:"t"`
	Created string `json:"c"`
	Key     string `json:"k"`
	Waits   bool   `json:"w,omitempty"` // in backoff
}

func placeOf(k adapters.DeadKey) deadPlace {
	return deadPlace{Pack(k.Table), Pack(k.Created), Pack(k.Key), k.Retrying}
}

func encodeSubject(o *adapters.Operation) string {
	f := o.Filter
	s := subject{Route: Pack(f.Route), Group: Pack(f.Group), ID: Pack(f.ID), Status: string(f.Status), Type: Pack(f.Type), Error: Pack(f.Error),
		Failure: f.Failure, Limit: f.Limit, All: o.All, Sources: packed(o.Sources), Routes: packed(o.Routes), To: Pack(o.To)}
	if !f.Before.IsZero() {
		before := f.Before.UTC()
		s.Before = &before
	}
	return encoded(s)
}

func encodePlace(p *adapters.OperationPlace) string {
	out := place{ParkedOver: p.ParkedOver, Source: p.Source, Route: p.Route}
	if k := p.Parked; k != (adapters.ParkedKey{}) {
		out.Parked = &parkedPlace{Pack(k.Route), k.Slot, k.Seq}
	}
	if k := p.Dead; k != (adapters.DeadKey{}) {
		dead := placeOf(k)
		out.Dead = &dead
	}
	for _, k := range p.Pending {
		out.Pending = append(out.Pending, placeOf(k))
	}
	return encoded(out)
}

// decodeOperation is the inverse of encodeSubject and encodePlace.
func decodeOperation(o *adapters.Operation, subjectText, placeText string) error {
	var s subject
	var p place
	if err := json.Unmarshal([]byte(subjectText), &s); err != nil {
		return fmt.Errorf("outrider_operation %s: its subject is not what this program writes: %w", o.ID, err)
	}
	if err := json.Unmarshal([]byte(placeText), &p); err != nil {
		return fmt.Errorf("outrider_operation %s: its place is not what this program writes: %w", o.ID, err)
	}
	o.ID, o.Worker = Unpack(o.ID), Unpack(o.Worker)
	o.Filter = adapters.ParkedFilter{Route: Unpack(s.Route), Group: Unpack(s.Group), ID: Unpack(s.ID), Status: adapters.ParkedStatus(s.Status),
		Type: Unpack(s.Type), Error: Unpack(s.Error), Failure: s.Failure, Limit: s.Limit}
	if s.Before != nil {
		o.Filter.Before = *s.Before
	}
	o.All, o.Sources, o.Routes, o.To = s.All, unpacked(s.Sources), unpacked(s.Routes), Unpack(s.To)
	o.Place = adapters.OperationPlace{ParkedOver: p.ParkedOver, Source: p.Source, Route: p.Route}
	if k := p.Parked; k != nil {
		o.Place.Parked = adapters.ParkedKey{LaneRef: adapters.LaneRef{Route: Unpack(k.Route), Slot: k.Slot}, Seq: k.Seq}
	}
	if p.Dead != nil {
		o.Place.Dead = p.Dead.key()
	}
	for _, k := range p.Pending {
		o.Place.Pending = append(o.Place.Pending, k.key())
	}
	return nil
}

func (p deadPlace) key() adapters.DeadKey {
	return adapters.DeadKey{Table: Unpack(p.Table), Created: Unpack(p.Created), Key: Unpack(p.Key), Retrying: p.Waits}
}

func packed(texts []string) (out []string) {
	for _, t := range texts {
		out = append(out, Pack(t))
	}
	return out
}

func unpacked(texts []string) (out []string) {
	for _, t := range texts {
		out = append(out, Unpack(t))
	}
	return out
}

// encoded is a value as JSON. Structs of texts and numbers cannot fail to encode.
func encoded(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
