package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// part is what was found of a part of the configuration.
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
		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
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
	if d.Lines, err = s.retained(r.Context(), true); err != nil {
		d.Problem = err.Error()
	}
	for _, l := range d.Lines {
		d.Remove = d.Remove || l.Rows > 0 || l.Partitions > 0
	}
	return &page{Name: "retention", Title: "Retention", Data: d}, nil
}

// retained removes what can go, or counts it, for as long as a request may.
func (s *pages) retained(ctx context.Context, dryRun bool) (all []adapters.RetentionStats, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err = s.console.Use(ctx, func(op *operate.Operator) (err error) {
		all, err = op.Retain(ctx, dryRun, operate.PageAuthor(ctx))
		return err
	})
	return all, err
}

// removed counts rows and partitions.
func removed(all []adapters.RetentionStats) (rows, partitions int) {
	for _, s := range all {
		rows, partitions = rows+int(s.Rows), partitions+int(s.Partitions)
	}
	return rows, partitions
}

// removedText says how many rows and partitions are removed.
func removedText(rows, partitions int) string {
	text := plural(rows, "row", "rows")
	if partitions > 0 {
		text = plural(partitions, "partition", "partitions") + " and " + text
	}
	return text
}

func (s *pages) confirmRetain(ctx context.Context, d *confirmData) error {
	all, err := s.retained(ctx, true)
	rows, partitions := removed(all)
	d.Count, d.Verb, d.Grave, d.Back = rows, "Remove "+removedText(rows, partitions), true, "/retention"
	if rows+partitions == 0 {
		d.Nothing = "Nothing to remove: no row is old enough and settled by all routes."
	}
	d.Undone = []string{"All routes have settled them and they are older than the source keeps rows. A running relay removes them by itself; this does it now, with what became old enough meanwhile.",
		"This cannot be undone: no seek delivers them again."}
	return err
}

func (s *pages) retain(ctx context.Context) (said string, err error) {
	all, err := s.retained(ctx, false)
	rows, partitions := removed(all)
	if server.StatusOf(err) == http.StatusServiceUnavailable && rows+partitions > 0 {
		return "Removed " + removedText(rows, partitions) + ". The time of a request was over: there may be more.", nil
	}
	return "Removed " + removedText(rows, partitions) + ".", err
}
