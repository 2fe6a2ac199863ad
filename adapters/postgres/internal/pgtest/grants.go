package pgtest

import (
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// EachGrant returns the grants for a task, right by right and column by column.
func EachGrant(gs pg.Grants, task pg.Task) (out pg.Grants) {
	for _, g := range gs {
		for _, r := range g.Rights {
			columns := r.Columns
			if len(columns) == 0 || r.Whole {
				columns = []string{""}
			}
			for _, c := range columns {
				one := g
				one.Rights = []pg.Right{r}
				if c != "" {
					one.Rights[0].Columns = []string{c}
				}
				if g.Task == task {
					out = append(out, one)
				}
			}
		}
	}
	return out
}
