package api

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
)

// RetentionReport counts the rows that retention removed, or would remove now, by source.
type RetentionReport struct {
	Removed bool                    `json:"removed" doc:"false: only counted."`
	Items   []operate.RetentionView `json:"items" nullable:"false" doc:"Sources that have a retention."`
	More    bool                    `json:"more" doc:"The time of a request was over: there may be more. Send it again."`
}

// Examination has the findings about everything that the configuration needs.
type Examination struct {
	Findings []console.DiagnosisView `json:"findings" nullable:"false"`
	Broken   int                     `json:"broken"`
	Warnings int                     `json:"warnings"`
}

// RowView is a row of a source, without its payload.
type RowView struct {
	Position     int64      `json:"position"`
	Slot         int        `json:"slot"`
	ID           string     `json:"id" doc:"Event id."`
	Type         string     `json:"type" doc:"Event type."`
	Group        string     `json:"group,omitempty"`
	CreatedAt    *time.Time `json:"created_at,omitempty"`
	PayloadBytes int        `json:"payload_bytes" doc:"Size of the payload."`
}

type tailIn struct {
	Source string `query:"source" required:"true" minLength:"1" maxLength:"200" doc:"A source, or a route: then only rows that it matches."`
	Types  string `query:"types" maxLength:"200" doc:"Pattern of event types, such as order.*"`
	Group  string `query:"group" maxLength:"2000"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

type tailOut struct {
	Body struct {
		Items []RowView `json:"items" nullable:"false"`
	}
}

func (s *service) addMaintenance() {
	add(s, get("/tail", "tail", "The newest rows of a source, or of those that a route matches, the newest first: of the last 1,000 positions"), s.tail)
	examine := get("/doctor", "doctor", "Check everything that the relay needs: what outrider doctor finds, from within the relay")
	examine.role = operate.RoleOperate // it connects to everything
	add(s, examine, s.doctor)
	add(s, get("/retention", "get-retention", "Rows and partitions that retention would remove now, and the routes that still need others"), s.retention)
	add(s, act("retain", "/retention"), s.retain)
	add(s, get("/version", "get-version", "What the relay was built from"), s.version)
}

func (s *service) tail(ctx context.Context, in *tailIn) (*tailOut, error) {
	if err := checkText("source", in.Source, "types", in.Types, "group", in.Group); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, action.RequestTime)
	defer cancel()
	rows, err := s.console.Latest(limited, in.Source, console.TailOptions{Types: in.Types, Group: in.Group, Max: in.Limit})
	out := &tailOut{}
	out.Body.Items = []RowView{}
	for _, r := range rows {
		v := RowView{Position: r.Position, Slot: r.Slot, ID: r.ID, Type: r.Type, Group: r.Group, PayloadBytes: len(r.Payload)}
		if !r.CreatedAt.IsZero() {
			v.CreatedAt = &r.CreatedAt
		}
		out.Body.Items = append(out.Body.Items, v)
	}
	return out, err
}

func (s *service) doctor(ctx context.Context, _ *struct{}) (*one[Examination], error) {
	limited, cancel := context.WithTimeout(ctx, action.RequestTime)
	defer cancel()
	out := &one[Examination]{}
	out.Body.Findings, out.Body.Broken, out.Body.Warnings = console.ViewDiagnoses(s.console.Examine(limited))
	return out, nil
}

func (s *service) retention(ctx context.Context, _ *struct{}) (*one[RetentionReport], error) {
	return s.retaining(ctx, true)
}

func (s *service) retain(ctx context.Context, _ *struct{}) (*one[RetentionReport], error) {
	return s.retaining(ctx, false)
}

func (s *service) retaining(ctx context.Context, dryRun bool) (*one[RetentionReport], error) {
	limited, cancel := context.WithTimeout(ctx, action.RequestTime)
	defer cancel()
	out := &one[RetentionReport]{RetentionReport{Removed: !dryRun, Items: []operate.RetentionView{}}}
	err := s.console.Use(limited, func(op *operate.Operator) error {
		all, err := op.Retain(limited, dryRun, author(ctx, Author{}))
		out.Body.Items = operate.ViewRetention(all)
		return err
	})
	if limited.Err() != nil && ctx.Err() == nil && len(out.Body.Items) > 0 && !dryRun {
		out.Body.More = true // each step is committed
		return out, nil
	}
	return out, err
}

func (s *service) version(context.Context, *struct{}) (*one[operate.Build], error) {
	return &one[operate.Build]{operate.Version()}, nil
}
