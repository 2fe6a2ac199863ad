package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
)

// part has the findings about a part of the configuration.
type part struct {
	Name     string
	Findings []console.DiagnosisView
	worst    int // index of a level
}

// levels are those of findings, the worst last.
var levels = []string{adapters.LevelOK.String(), adapters.LevelUnknown.String(), adapters.LevelWarning.String(), adapters.LevelBroken.String()}

type doctorData struct {
	Run              bool
	Broken, Warnings int
	Parts            []part
}

// doctor examines what the relay needs, when it is asked to: it connects to everything.
func (s *pages) doctor(r *http.Request) (*page, error) {
	d := doctorData{Run: r.URL.Query().Get("run") != ""}
	if err := need(r, operate.RoleOperate); d.Run && err != nil {
		return nil, err
	}
	if d.Run {
		ctx, cancel := context.WithTimeout(r.Context(), action.RequestTime)
		defer cancel()
		var findings []console.DiagnosisView
		findings, d.Broken, d.Warnings = console.ViewDiagnoses(s.console.Examine(ctx))
		for _, f := range findings {
			if n := len(d.Parts); n == 0 || d.Parts[n-1].Name != f.Part {
				d.Parts = append(d.Parts, part{Name: f.Part})
			}
			last := &d.Parts[len(d.Parts)-1]
			last.Findings = append(last.Findings, f)
			last.worst = max(last.worst, slices.Index(levels, f.Level))
		}
		for _, p := range d.Parts { // what is wrong comes first
			slices.SortStableFunc(p.Findings, func(a, b console.DiagnosisView) int {
				return cmp.Compare(slices.Index(levels, b.Level), slices.Index(levels, a.Level))
			})
		}
		slices.SortStableFunc(d.Parts, func(a, b part) int { return cmp.Compare(b.worst, a.worst) })
	}
	return &page{Name: "doctor", Title: "Doctor", Data: d}, nil
}

type retentionData struct {
	Lines   []adapters.RetentionStats
	Problem string
	Remove  bool // there is something to remove
}

// retention shows what would be removed now.
func (s *pages) retention(r *http.Request) (*page, error) {
	var d retentionData
	var err error
	if d.Lines, err = action.Retained(r.Context(), s.console, true, operate.PageAuthor(r.Context())); err != nil {
		d.Problem = err.Error()
	}
	for _, l := range d.Lines {
		d.Remove = d.Remove || l.Rows > 0 || l.Partitions > 0
	}
	return &page{Name: "retention", Title: "Retention", Data: d}, nil
}
