package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// ParkedView is a parked message.
type ParkedView struct {
	Key           string     `json:"key,omitempty" doc:"route/slot/seq, which names the message; absent of a row in a queue's table."`
	Source        string     `json:"source,omitempty" doc:"Queue whose table has the dead row; absent: it is in the state store."`
	Table         string     `json:"table,omitempty" doc:"That table."`
	ID            string     `json:"id" doc:"Event id."`
	Route         string     `json:"route"`
	Slot          int        `json:"slot"`
	Seq           int64      `json:"seq"`
	Group         string     `json:"group,omitempty"`
	Type          string     `json:"type" doc:"Event type."`
	Status        string     `json:"status" enum:"retrying,waiting,held,dead"`
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"`
	ParkedAt      time.Time  `json:"parked_at"`
	Position      int64      `json:"position,omitempty" doc:"In the source."`
	Error         string     `json:"last_error,omitempty"`

	Tries []adapters.Try `json:"tries,omitempty" doc:"The latest failed attempts, at most 10, the latest last."`

	PayloadBytes int `json:"payload_bytes" doc:"Size of the payload."`

	Metadata map[string]string `json:"metadata,omitempty" doc:"Of one message: each value is *** unless payload=true."`
	Payload  any               `json:"payload,omitempty" doc:"Of one message, when it is JSON: each value is *** unless payload=true, which is needed for payloads beyond 1 MiB."`
	Base64   []byte            `json:"payload_base64,omitempty" doc:"Of one message that is not JSON, with payload=true."`
}

// ParkedQuery selects parked messages, as the flags of outrider parked do.
type ParkedQuery struct {
	Route   string    `query:"route" json:"route,omitempty" maxLength:"200"`
	Group   string    `query:"group" json:"group,omitempty" maxLength:"2000"`
	ID      string    `query:"id" json:"id,omitempty" maxLength:"2000" doc:"Event id."`
	Type    string    `query:"type" json:"type,omitempty" maxLength:"2000" doc:"Event type."`
	Error   string    `query:"error" json:"error,omitempty" maxLength:"2000" doc:"Part of the last error, in any case."`
	Before  time.Time `query:"before" json:"before,omitzero" doc:"Parked before this time."`
	Failure string    `query:"failure" json:"failure,omitempty" pattern:"^[0-7][0-9a-f]{15}$" doc:"fingerprint of a failure."`
}

func (q *ParkedQuery) filter(status string) (adapters.ParkedFilter, error) {
	if !q.Before.IsZero() && (q.Before.Year() < 1970 || q.Before.Year() > 9999) {
		return adapters.ParkedFilter{}, invalid("before %s is no time of parked messages", q.Before)
	}
	var failure int64
	if q.Failure != "" {
		var err error
		if failure, err = operate.ParseFailure(q.Failure); err != nil {
			return adapters.ParkedFilter{}, invalid("%v", err)
		}
	}
	return adapters.ParkedFilter{Route: q.Route, Group: q.Group, ID: q.ID, Type: q.Type, Error: q.Error, Before: q.Before, Failure: failure,
		Status: adapters.ParkedStatus(status)}, checkText("route", q.Route, "group", q.Group, "id", q.ID, "type", q.Type, "error", q.Error)
}

type parkedIn struct {
	ParkedQuery
	Page
	Status string `query:"status" enum:"retrying,waiting,held,dead"`
}

// parkedOut is a page. Dead rows of queues come after all that the state stores have.
type parkedOut struct {
	Body struct {
		Items []ParkedView `json:"items" nullable:"false"`
		Next  string       `json:"next,omitempty" doc:"after of the next page; absent on the last one."`
		More  bool         `json:"more" doc:"There are more."`
	}
}

type messageIn struct {
	RouteIn
	Slot    int   `path:"slot" minimum:"0" maximum:"4095"`
	Seq     int64 `path:"seq" minimum:"1"`
	Payload bool  `query:"payload" doc:"Show the values of payload and metadata; needs the role operate."`
}

type failuresIn struct {
	Route string `query:"route" maxLength:"200"`
}

type failuresOut struct {
	Body struct {
		Items []operate.Failure `json:"items" nullable:"false"`
		More  bool              `json:"more,omitempty" doc:"There are more messages than were looked at: counts are too low."`
	}
}

type eventIn struct {
	ID string `path:"id" maxLength:"2000" doc:"Event id."`
}

func (s *service) addParked() {
	add(s, get("/parked", "list-parked", "Parked messages by route, slot and seq, without payloads"), s.parked)
	add(s, get("/parked/{route}/{slot}/{seq}", "get-parked", "One parked message"), s.message)
	add(s, get("/failures", "list-failures", "Parked messages grouped by error, address and type, the most frequent first"), s.failures)
	add(s, get("/events/{id}", "get-event", "Where an event is"), s.event)
}

func (s *service) parked(ctx context.Context, in *parkedIn) (*parkedOut, error) {
	f, err := in.filter(in.Status)
	if err != nil {
		return nil, err
	}
	f.Limit = in.Limit + 1
	after, err := parsePlace(in.After)
	if err != nil {
		return nil, err
	}
	if f.Route != "" {
		if err := s.console.Use(ctx, func(op *operate.Operator) error { return op.Known(ctx, f.Route) }); err != nil {
			return nil, err
		}
	}
	rows, err := s.console.ParkedAfter(ctx, f, after)
	if err != nil {
		return nil, err
	}
	out := &parkedOut{}
	out.Body.Items = []ParkedView{}
	for _, p := range rows[:min(len(rows), in.Limit)] {
		out.Body.Items = append(out.Body.Items, viewParked(&p))
	}
	if out.Body.More = len(rows) > in.Limit; out.Body.More {
		out.Body.Next = rows[in.Limit-1].At.String()
	}
	return out, nil
}

func (s *service) message(ctx context.Context, in *messageIn) (*one[ParkedView], error) {
	if in.Payload && operate.CallerOf(ctx).Role < operate.RoleOperate {
		return nil, server.Failed(http.StatusForbidden, "payloads need the role operate")
	}
	out := &one[ParkedView]{}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		if err := op.Known(ctx, in.Route); err != nil {
			return err
		}
		lane := adapters.LaneRef{Route: in.Route, Slot: in.Slot}
		bytes := operate.GlanceBytes
		if in.Payload {
			bytes = operate.WholeBytes
		}
		rows, err := op.ParkedWhole(ctx, adapters.ParkedFilter{Route: in.Route, Limit: 1, After: adapters.ParkedKey{LaneRef: lane, Seq: in.Seq - 1}}, bytes)
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].Table != "" || rows[0].LaneRef != lane || rows[0].Seq != in.Seq {
			return server.Failed(http.StatusNotFound, "no such message is parked: it was delivered or skipped")
		}
		out.Body = viewParked(&rows[0])
		out.Body.content(&rows[0].Parked, in.Payload)
		return nil
	})
}

func (s *service) failures(ctx context.Context, in *failuresIn) (*failuresOut, error) {
	out := &failuresOut{}
	return out, s.console.Search(ctx, func(ctx context.Context, op *operate.Operator) error {
		if in.Route != "" {
			if err := op.Known(ctx, in.Route); err != nil {
				return err
			}
		}
		found, more, err := op.Failures(ctx, in.Route)
		out.Body.Items, out.Body.More = append([]operate.Failure{}, found...), more
		return err
	})
}

func (s *service) event(ctx context.Context, in *eventIn) (*one[operate.Journey], error) {
	if err := checkText("id", in.ID); err != nil {
		return nil, err
	}
	j, err := s.console.Journey(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &one[operate.Journey]{*j}, nil
}

func viewParked(p *operate.ParkedMessage) ParkedView {
	v := ParkedView{
		ID: p.ID, Source: p.Source, Table: p.Table, Route: p.Route, Slot: p.Slot, Seq: p.Seq, Group: p.Group, Type: p.Type,
		Status: string(p.Status), Attempts: p.Attempts, ParkedAt: p.ParkedAt, Position: p.Position, Error: p.LastError, PayloadBytes: int(p.Size),
	}
	v.Tries = p.Tries
	if p.Table == "" {
		v.Key = fmt.Sprintf("%s/%d/%d", p.Route, p.Slot, p.Seq)
	}
	if p.Status == adapters.ParkedRetrying && !p.NextAttemptAt.IsZero() {
		v.NextAttemptAt = &p.NextAttemptAt
	}
	return v
}

// content adds payload and metadata, masked unless they are to be shown.
func (v *ParkedView) content(p *adapters.Parked, shown bool) {
	v.Metadata = map[string]string{}
	for key, value := range p.Metadata {
		v.Metadata[key] = console.Masked
		if shown {
			v.Metadata[key] = value
		}
	}
	switch {
	case p.Bare:
	case shown && json.Valid(p.Payload):
		v.Payload = json.RawMessage(p.Payload)
	case shown:
		v.Base64 = p.Payload
	default:
		if masked, ok := console.MaskedJSON(p.Payload); ok {
			v.Payload = masked
		}
	}
}

// parsePlace reads the place that a page begins behind.
func parsePlace(text string) (operate.PageToken, error) {
	place, err := operate.ParsePageToken(text)
	if err != nil {
		return place, invalid("after: %v", err)
	}
	return place, checkText("after", place.Parked.Route, "after", place.Source, "after", place.Dead.Table, "after", place.Dead.Created, "after", place.Dead.Key)
}
