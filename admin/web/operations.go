package web

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// operationLine is an operation and what it is about.
type operationLine struct {
	adapters.Operation
	About []chip
}

type operationsData struct {
	Lines []operationLine
	More  bool
}

// operationsMost is how many operations the page shows, the newest.
const operationsMost = 50

func (s *pages) operations(r *http.Request) (*page, error) {
	ctx := r.Context()
	var d operationsData
	err := s.console.Use(ctx, func(op *operate.Operator) error {
		found, err := op.Operations(ctx, adapters.OperationFilter{Limit: operationsMost + 1})
		d.More = len(found) > operationsMost
		for _, o := range found[:min(len(found), operationsMost)] {
			d.Lines = append(d.Lines, operationLine{o, aboutOperation(&o)})
		}
		return err
	})
	return &page{Name: "operations", Title: "Operations", Data: d}, err
}

// aboutOperation names the messages or routes of an operation, by the names of the filter.
func aboutOperation(o *adapters.Operation) (about []chip) {
	set := func(name, value string) {
		if value != "" {
			about = append(about, chip{Name: name, Value: value})
		}
	}
	f := &o.Filter
	set("route", f.Route)
	set("status", string(f.Status))
	set("type", f.Type)
	set("group", f.Group)
	set("id", f.ID)
	set("error", f.Error)
	if f.Failure != 0 {
		set("failure", fmt.Sprintf("%016x", f.Failure))
	}
	if !f.Before.IsZero() {
		set("before", exact(f.Before))
	}
	set("routes", strings.Join(o.Routes, ", "))
	set("to", o.To)
	return about
}
