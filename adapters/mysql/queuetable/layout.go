package queuetable

import "errors"

// validate reports what no queue in MySQL can work with. A configuration was checked before.
func validate(l *Layout) error {
	errs := l.Problems()
	if l.Noted() {
		errs = append(errs, errors.New("no column is named for attempts; in MySQL a table without a status for rows that are being processed needs one"))
	}
	return errors.Join(errs...)
}
