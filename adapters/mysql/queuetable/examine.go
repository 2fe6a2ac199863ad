package queuetable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// Check implements [adapters.Queue]. What makes claims dear is only warned about.
func (q *Queue) Check(ctx context.Context) error {
	var errs []error
	for _, t := range q.tables {
		err := q.Describe(ctx, t, true)
		s := t.sql()
		if err == nil {
			err = q.mayClaim(ctx, t, s)
		}
		if err != nil {
			errs = append(errs, err)
			if _, away := connectionProblem(err); away {
				break
			}
			continue
		}
		if s.byKey() == "" {
			q.log.WarnContext(ctx, keyless+"; add a unique one", "table", t.Name, "key", t.Layout.Columns.Key)
		}
		if missing := s.missing(); len(missing) > 0 {
			q.log.WarnContext(ctx, "an index is missing: claims read more than they need to; `outrider init` creates it", "table", t.Name, "index", missing[0].name)
		}
	}
	return errors.Join(errs...)
}

// mayClaim tries what a claim does, on no row.
func (q *Queue) mayClaim(ctx context.Context, t *table, s *statements) error {
	var engine string
	if err := q.db.QueryRowContext(ctx, "SELECT COALESCE(engine, '') FROM information_schema.tables WHERE table_schema = "+t.at.In()+" AND table_name = ?", t.at.Name).Scan(&engine); err != nil {
		return wrap(t.Name, "look at it", err)
	}
	if !strings.EqualFold(engine, "InnoDB") {
		return fmt.Errorf("mysql queue: table %s is of the engine %s, which has no transactions: ALTER TABLE %s ENGINE = InnoDB", t.Name, engine, s.name)
	}
	none := values{keys: []any{nil}, claimed: time.Unix(1, 0).UTC(), stamp: time.Unix(1, 0).UTC()}
	texts := []string{s.lock, s.Done}
	if s.take != "" {
		texts = append(texts, s.take)
	}
	for _, text := range texts {
		query, args := none.bind(text)
		if strings.HasPrefix(text, "SELECT") {
			if err := q.readNone(ctx, query, args...); err != nil {
				return wrap(t.Name, "try a claim", err)
			}
			continue
		}
		if _, err := q.db.ExecContext(ctx, query, args...); err != nil {
			return wrap(t.Name, "try a claim", err)
		}
	}
	return nil
}

// readNone runs a query and ignores its rows.
func (q *Queue) readNone(ctx context.Context, query string, args ...any) error {
	rows, err := q.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
	}
	return rows.Err()
}

// Examine implements [adapters.Examiner].
func (q *Queue) Examine(ctx context.Context) []adapters.Finding {
	var version, user, database string
	err := q.db.QueryRowContext(ctx, `SELECT VERSION(), CURRENT_USER(), COALESCE(DATABASE(), '')`).Scan(&version, &user, &database)
	if err != nil {
		f := adapters.Finding{Level: adapters.LevelBroken, Subject: "server", Text: err.Error()}
		if text, away := connectionProblem(err); away {
			f.Text, f.Fix = text, connectionFix(err)
		}
		return []adapters.Finding{f}
	}
	f := []adapters.Finding{{Subject: "server", Text: fmt.Sprintf("%s, database %s, as %s", version, database, user)}, q.examineReadOnly(ctx)}
	for _, t := range q.tables {
		f = append(f, q.examineTable(ctx, t, strings.Contains(version, "MariaDB"))...)
	}
	return f
}

func (q *Queue) examineReadOnly(ctx context.Context) adapters.Finding {
	var readOnly bool
	switch err := q.db.QueryRowContext(ctx, "SELECT @@global.read_only").Scan(&readOnly); {
	case err != nil:
		return adapters.Finding{Level: adapters.LevelUnknown, Subject: "role of the server", Text: err.Error()}
	case readOnly:
		return adapters.Finding{Level: adapters.LevelBroken, Subject: "role of the server", Text: "it is read only, as a replica: rows cannot be claimed", Fix: "name the primary in the url"}
	}
	return adapters.Finding{Subject: "role of the server", Text: "it can be written to"}
}

func (q *Queue) examineTable(ctx context.Context, t *table, mariaDB bool) []adapters.Finding {
	subject := "table " + t.Name
	err := q.Describe(ctx, t, true)
	s := t.sql()
	if err == nil {
		err = q.mayClaim(ctx, t, s)
	}
	if err != nil {
		return adapters.FindingsOf(subject, err)
	}
	f := []adapters.Finding{{Subject: subject + ": columns", Text: "all there, and may be read and written"}}
	if missing := s.missing(); len(missing) > 0 {
		names := make([]string, len(missing))
		for i := range missing {
			names[i] = missing[i].name
		}
		f = append(f, adapters.Finding{Level: adapters.LevelWarning, Subject: subject + ": indexes",
			Text: strings.Join(names, " and ") + " missing, or with other columns: claims, or looking for dead rows, read the whole table", Fix: "`outrider init` creates what is missing"})
	} else {
		f = append(f, adapters.Finding{Subject: subject + ": indexes", Text: "they find unfinished rows by group and by age, and dead ones"})
	}
	f = append(f, s.limits(subject, mariaDB)...)
	if t.Marks {
		f = append(f, q.examineStuck(ctx, t, s))
	}
	return f
}

const keyless = "no index begins with the column of the key: each claim reads and locks the whole table"

// limits says what cannot hold on these columns.
func (s *statements) limits(subject string, mariaDB bool) (f []adapters.Finding) {
	c := &s.layout.Columns
	warn := func(what, text, fix string) {
		f = append(f, adapters.Finding{Level: adapters.LevelWarning, Subject: subject + ": " + what, Text: text, Fix: fix})
	}
	if s.byKey() == "" {
		warn("key", keyless, "ALTER TABLE "+s.name+" ADD UNIQUE ("+my.Quote(c.Key)+")")
	}
	if s.columnOf(c.Payload).kind == "json" && !mariaDB {
		warn("payloads", "the column "+c.Payload+" is of the type JSON, which MySQL writes anew: keys in another order, other spaces and numbers. "+
			"Consumers do not get the bytes that were published", "make it LONGTEXT if signatures or hashes of payloads are compared")
	}
	if s.columnOf(c.Payload).kind == "text" {
		warn("payloads", "the column "+c.Payload+" is of the type TEXT, which holds 64 KiB; a server without strict mode cuts what is longer", "make it LONGTEXT")
	}
	if s.columnOf(c.Created).updatesItself() {
		warn("times", "the column "+c.Created+" updates itself (explicit_defaults_for_timestamp was OFF when it was made). Outrider keeps its value; "+
			"other programs that update a row change when it was created, and so its place in its group", "ALTER TABLE "+s.name+" MODIFY the column without ON UPDATE")
	}
	if s.precision(c.Created) == 0 {
		f = append(f, adapters.Finding{Subject: subject + ": order", Text: "the column " + c.Created + " has whole seconds: rows of one second in a group are in the order of their keys"})
	}
	if c.Claimed != "" && s.columnOf(c.Claimed).kind == "datetime" {
		f = append(f, adapters.Finding{Subject: subject + ": time zone", Text: "the column " + c.Claimed + " is a DATETIME, which has no time zone: Outrider writes UTC, and so must others that look for stuck rows"})
	}
	return f
}

// examineStuck counts rows that are marked as being processed for longer than a delivery takes.
func (q *Queue) examineStuck(ctx context.Context, t *table, s *statements) adapters.Finding {
	subject := "table " + t.Name + ": rows being processed"
	const most = 1000
	rows, err := s.marked(ctx, q.db, q.timeout, most)
	if err != nil {
		return adapters.Finding{Level: adapters.LevelUnknown, Subject: subject, Text: err.Error()}
	}
	undated, err := s.undated(ctx, q.db, most)
	if err != nil {
		return adapters.Finding{Level: adapters.LevelUnknown, Subject: subject, Text: err.Error()}
	}
	stuck := queue.Stuck{Subject: subject, Rows: "rows", Claimed: t.Layout.Columns.Claimed, Timeout: q.timeout, Overdue: len(rows), More: len(rows) == most, Undated: undated}
	if len(rows) > 0 {
		stuck.Longest = rows[0].since
	}
	return stuck.Finding()
}

func connectionProblem(err error) (text string, ok bool) {
	e, ok := my.NotConnected(err)
	if !ok {
		return "", false
	}
	return e.Text, true
}

func connectionFix(err error) string { return my.ConnectionFix(err) }
