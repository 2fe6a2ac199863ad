package queuetable

import (
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters/layout"
)

// validate reports what no queue in SQLite can work with. A configuration was checked before.
func validate(l *Layout) error {
	var errs []error
	for _, c := range l.Columns.Required() {
		if c.Name == "" {
			errs = append(errs, fmt.Errorf("no column is named for %s; every queue table needs one", c.What))
		}
	}
	if !l.Claimless() && l.Columns.Claimed == "" {
		errs = append(errs, errors.New("no column is named for claimed; a table with a status for rows that are being processed needs one"))
	}
	if l.Noted() {
		errs = append(errs, errors.New("no column is named for attempts; in SQLite a table without a status for rows that are being processed needs one"))
	}
	if l.GroupByType && (l.Columns.Group == "" || l.Columns.AggregateType == "") {
		errs = append(errs, errors.New("a group with the aggregate's type needs the columns group and aggregate_type"))
	}
	s := &l.Statuses
	values := []layout.Named{{What: "pending", Name: s.Pending}, {What: "done", Name: s.Done}, {What: "dead", Name: s.Dead}}
	if !l.Claimless() {
		values = append(values, layout.Named{What: "processing", Name: s.Processing})
	}
	if s.Retrying != "" && s.Retrying != s.Pending {
		values = append(values, layout.Named{What: "retrying", Name: s.Retrying})
	}
	seen := map[string]string{}
	for _, v := range values {
		switch other := seen[v.Name]; {
		case v.Name == "":
			errs = append(errs, fmt.Errorf("the status %s has no value", v.What))
		case other != "":
			errs = append(errs, fmt.Errorf("the statuses %s and %s are both %q; they must differ", other, v.What, v.Name))
		}
		seen[v.Name] = v.What
	}
	return errors.Join(errs...)
}
