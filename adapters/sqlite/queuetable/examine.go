package queuetable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

// Check implements [adapters.Queue]. What makes claims dear is only warned about.
func (q *Queue) Check(ctx context.Context) error {
	var errs []error
	for _, t := range q.tables {
		if err := q.Describe(ctx, t, true); err != nil {
			errs = append(errs, err)
			continue
		}
		if missing := t.sql().missing(); missing != nil {
			q.log.WarnContext(ctx, "an index is missing: claims read more than they need to; `outrider init` creates it", "table", t.name, "index", missing.name)
		}
	}
	var mode string
	if err := q.db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return errors.Join(append(errs, wrap(q.tables[0].name, "check", err))...)
	}
	if !concurrent(mode) {
		q.log.WarnContext(ctx, "the database is not in WAL mode: claims and the application's commits wait for each other; "+
			"`outrider init` changes it", "table", q.tables[0].name, "journal_mode", mode)
	}
	return errors.Join(errs...)
}

// concurrent reports whether readers and the writer do not wait for each other.
func concurrent(mode string) bool { return mode == "wal" || mode == "memory" }

// missing is the first index of ours that is not there; nil: all are.
func (s *statements) missing() *index {
	for _, i := range s.indexes() {
		if !i.there {
			return i
		}
	}
	return nil
}

// Examine implements [adapters.Examiner].
func (q *Queue) Examine(ctx context.Context) []adapters.Finding {
	var version, mode, path string
	err := errors.Join(
		q.db.QueryRowContext(ctx, `SELECT sqlite_version(), coalesce(max(file), '') FROM pragma_database_list WHERE name = 'main'`).Scan(&version, &path),
		q.db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode))
	if err != nil {
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: "database file", Text: err.Error(),
			Fix: "correct the path, or create the database with `outrider init`; the file and its folder must be readable and writable"}}
	}
	f := []adapters.Finding{{Subject: "database file", Text: path + " (SQLite " + version + ")"}, {Subject: "journal mode", Text: mode}}
	if !concurrent(mode) {
		f[1] = adapters.Finding{Level: adapters.LevelWarning, Subject: "journal mode",
			Text: mode + ": claims and the application's commits wait for each other", Fix: "`outrider init` changes it to WAL"}
	}
	for _, t := range q.tables {
		f = append(f, q.examineTable(ctx, t)...)
	}
	return f
}

func (q *Queue) examineTable(ctx context.Context, t *table) []adapters.Finding {
	subject := "table " + t.name
	if err := q.Describe(ctx, t, true); err != nil {
		return adapters.FindingsOf(subject, err)
	}
	s := t.sql()
	f := []adapters.Finding{{Subject: subject + ": columns", Text: "all there"}}
	if i := s.missing(); i != nil {
		f = append(f, adapters.Finding{Level: adapters.LevelWarning, Subject: subject + ": indexes",
			Text: i.name + " is missing, or made for another layout: claims, or looking for dead rows, read the whole table", Fix: "`outrider init` creates it: " + i.create})
	} else {
		f = append(f, adapters.Finding{Subject: subject + ": indexes", Text: "they find unfinished rows by group and by age, and dead ones"})
	}
	f = append(f, q.examineTimes(ctx, t, s))
	if t.Marks {
		f = append(f, q.examineStuck(ctx, t, s))
	}
	return f
}

// examineTimes reads when the oldest unfinished rows were created: rows of a group are ordered as SQLite compares these values.
func (q *Queue) examineTimes(ctx context.Context, t *table, s *statements) adapters.Finding {
	subject := "table " + t.name + ": times"
	rows, err := q.WaitingByAge(ctx, adapters.DeadKey{Table: t.name}, 100)
	if err != nil {
		return adapters.Finding{Level: adapters.LevelUnknown, Subject: subject, Text: err.Error()}
	}
	column, integers := t.Layout.Columns.Created, s.affinity(t.Layout.Columns.Created) == affinityInteger
	for _, r := range rows {
		if _, err := timeOf(column, r.At.Created); err != nil && !integers && r.At.Table == t.name {
			return adapters.Finding{Level: adapters.LevelBroken, Subject: subject, Text: fmt.Sprintf("of row %s: %v", r.At.Key, err),
				Fix: "have all writers write one form, such as strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"}
		}
	}
	return adapters.Finding{Subject: subject, Text: "of the oldest rows that wait they can be read"}
}

// examineStuck counts rows that are marked as being processed for longer than a delivery takes.
func (q *Queue) examineStuck(ctx context.Context, t *table, s *statements) adapters.Finding {
	subject := "table " + t.name + ": rows being processed"
	rows, err := s.marked(ctx, q.db)
	if err != nil {
		return adapters.Finding{Level: adapters.LevelUnknown, Subject: subject, Text: err.Error()}
	}
	stuck := queue.Stuck{Subject: subject, Rows: "rows", Claimed: t.Layout.Columns.Claimed, Timeout: q.timeout}
	for _, m := range rows {
		switch age := time.Since(m.since); {
		case m.since.IsZero():
			stuck.Undated++
		case age > q.timeout:
			stuck.Overdue++
			stuck.Longest = max(stuck.Longest, age)
		}
	}
	return stuck.Finding()
}
