package web

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/outriderhq/outrider/admin/console"
)

// tailRow is a row of a source, without what its author wrote in it.
type tailRow struct {
	ID, Type, Group string
	Position        int64
	Slot            int
	Created         time.Time
	Bytes           int
}

type tailData struct {
	Source  string
	Types   string
	Group   string
	Sources []string
	Rows    []tailRow // newest first
	Problem string
}

const (
	tailMost  = 100             // rows of a page
	tailLimit = 3 * time.Second // for reading them
)

func (s *pages) tail(r *http.Request) (*page, error) {
	q := r.URL.Query()
	cfg := s.console.Config()
	d := tailData{Source: q.Get("source"), Types: q.Get("types"), Group: q.Get("group")}
	d.Sources = append(d.Sources, sortedNames(cfg.Sources)...)
	for _, route := range cfg.Routes {
		if !slices.Contains(d.Sources, route.Name) {
			d.Sources = append(d.Sources, route.Name)
		}
	}
	if d.Source == "" && len(d.Sources) > 0 {
		d.Source = d.Sources[0]
	}
	ctx, cancel := context.WithTimeout(r.Context(), tailLimit)
	defer cancel()
	rows, err := s.console.Latest(ctx, d.Source, console.TailOptions{Types: d.Types, Group: d.Group, Max: tailMost})
	if err != nil {
		d.Problem = err.Error()
	}
	for _, row := range rows {
		d.Rows = append(d.Rows, tailRow{ID: row.ID, Type: row.Type, Group: row.Group, Position: row.Position, Slot: row.Slot, Created: row.CreatedAt, Bytes: len(row.Payload)})
	}
	return &page{Name: "tail", Title: "Live tail", Data: d}, nil
}
