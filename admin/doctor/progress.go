package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// progress examines the tables of progress: whether their rows can be kept, and which rows no route keeps.
func (d *doctor) progress(ctx context.Context, op *operate.Operator) {
	const part, subject = "progress", "table"
	sources := op.ProgressSources()
	if len(sources) == 0 {
		return
	}
	if slices.ContainsFunc(sources, func(name string) bool { return d.operatorsLogin(ctx, name) }) {
		d.add(part, adapters.Finding{Subject: subject, Text: "checked as an operator, who keeps no rows: check the relay's role with its own login"})
		return
	}
	pairs := map[[2]string]bool{}
	for _, r := range d.cfg.Routes {
		if r.Progress != nil {
			pairs[[2]string{r.Progress.Topic, r.Progress.Publisher}] = true
		}
	}
	if err := op.CheckProgress(ctx); err != nil {
		d.add(part, adapters.FindingsOf(subject, err)...)
		return
	}
	rows, err := op.Publishers(ctx, "")
	if err != nil {
		d.add(part, adapters.FindingsOf(subject, err)...)
		return
	}
	var strange []string
	for _, p := range rows {
		if !pairs[[2]string{p.Topic, p.Publisher}] {
			strange = append(strange, fmt.Sprintf("%q of topic %q", p.Publisher, p.Topic))
		}
	}
	slices.Sort(strange)
	if len(strange) > 0 {
		d.add(part, adapters.Finding{Level: adapters.LevelWarning, Subject: "rows without a route",
			Text: fmt.Sprintf("%d of %d rows belong to no route, and stand still unless another system works them: publisher %s", len(strange), len(rows),
				strings.Join(strange[:min(len(strange), 5)], ", ")),
			Fix: "add a route with `progress: {topic: ..., publisher: ...}` for each, or delete the rows"})
		return
	}
	d.add(part, adapters.Finding{Subject: subject, Text: fmt.Sprintf("its rows can be kept; it has those of %d of %d pairs", len(rows), len(pairs))})
}
