package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/outbox"
)

var (
	_ outbox.Examiner = (*Source)(nil)
	_ outbox.Examiner = (*State)(nil)
)

// Examine implements [outbox.Examiner].
func (s *Source) Examine(ctx context.Context) []outbox.Finding {
	ctx, cancel := context.WithTimeout(ctx, examinePatience)
	defer cancel()
	f, reached := examineServer(ctx, s.pool)
	if !reached {
		return f
	}
	found := s.find(ctx)
	if found == nil {
		f = append(f, s.examineTable(ctx)...)
	} else {
		f = append(f, judge("table "+s.table, "", fmt.Errorf("%w%s", found, fixOf(s.table, found)))...)
	}
	f = append(f, examinePooler(ctx, s.pool, "reading"), examineClock(ctx, s.pool))
	f = append(f, s.waker.examineWake(ctx)...)
	if found != nil {
		return append(f, examineOpen(ctx, s.pool)...)
	}
	return append(f, examineSurroundings(ctx, s.pool, s.layout.table)...)
}

// examineTable looks at the table that is read.
func (s *Source) examineTable(ctx context.Context) []outbox.Finding {
	subject := "table " + s.table
	var oid uint32
	if err := s.pool.QueryRow(ctx, "SELECT $1::text::regclass::oid", s.layout.table).Scan(&oid); err != nil {
		return judge(subject, "", fmt.Errorf("%w%s", err, fixOf(s.table, err)))
	}
	columns, err := checkColumns(ctx, s.pool, oid, s.layout)
	f := judge(subject+": columns", "all there, with the types of the layout", errors.Join(columns, err))
	indexes, err := checkIndexes(ctx, s.pool, oid, s.layout)
	f = append(f, judge(subject+": indexes", "(slot, position) and (slot, xid, position)", errors.Join(indexes, err))...)
	f = append(f, judge(subject+": privileges and sequence", "it may be read; positions are handed out one by one", s.checkAccess(ctx))...)
	f = append(f, examineOwner(ctx, s.pool, s.layout.table)...)
	f = append(f, s.examinePartitions(ctx)...)
	return append(f, s.examineXids(ctx))
}

// examineXids looks for rows whose transactions this cluster has not come to.
func (s *Source) examineXids(ctx context.Context) outbox.Finding {
	const q = `SELECT EXISTS (
    SELECT FROM generate_series(0, 15) AS s(slot) CROSS JOIN LATERAL (
        SELECT FROM {table} o WHERE o.slot = s.slot::smallint AND o.xid >= pg_snapshot_xmax(pg_current_snapshot())
        ORDER BY o.slot, o.xid LIMIT 1) f)`
	subject := "table " + s.table + ": transaction ids"
	var foreign bool
	if err := s.pool.QueryRow(ctx, inTable(q, s.layout.table)).Scan(&foreign); err != nil {
		return unknown(subject, err)
	}
	if foreign {
		return outbox.Finding{Level: outbox.LevelWarning, Subject: subject,
			Text: "rows carry transaction ids that this cluster has not come to: they were restored from another one",
			Fix:  "run `outrider rebase ROUTE` once for each route that has not been rebased since; otherwise such rows come twice"}
	}
	return fine(subject, "all of this cluster")
}

// Examine implements [outbox.Examiner].
func (s *State) Examine(ctx context.Context) []outbox.Finding {
	ctx, cancel := context.WithTimeout(ctx, examinePatience)
	defer cancel()
	f, reached := examineServer(ctx, s.pool.Pool)
	if !reached {
		return f
	}
	f = append(f, examinePooler(ctx, s.pool.Pool, "ownership of lanes"), examineClock(ctx, s.pool.Pool))
	tables := s.examineTables(ctx)
	f = append(f, tables...)
	if slices.ContainsFunc(tables, func(t outbox.Finding) bool {
		return t.Level != outbox.LevelOK && t.Subject != "state privileges" || t.Level == outbox.LevelBroken
	}) {
		return f
	}
	return append(f, s.examineWork(ctx)...)
}

// stateTables are what the state store writes.
var stateTables = func() (names []string) {
	for _, r := range stateRights {
		if r.table != stateVersionTable {
			names = append(names, r.table)
		}
	}
	return names
}()

// stateTablesSubject is what a finding about missing tables is about.
const stateTablesSubject = "state tables"

func (s *State) examineTables(ctx context.Context) []outbox.Finding {
	const subject = stateTablesSubject
	var missing []string
	err := s.pool.QueryRow(ctx, `SELECT coalesce(array_agg(t.name ORDER BY t.n), '{}') FROM unnest($2::text[]) WITH ORDINALITY AS t(name, n)
WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = t.name)`,
		s.pool.schema.name, stateTables).Scan(&missing)
	if err != nil {
		return []outbox.Finding{unknown(subject, err)}
	}
	if len(missing) > 0 {
		return []outbox.Finding{{Level: outbox.LevelWarning, Subject: subject, Text: strings.Join(missing, ", ") + " do not exist yet",
			Fix: "`outrider init` or `outrider run` creates and upgrades them"}}
	}
	privileges, broken := s.examinePrivileges(ctx)
	if broken {
		return privileges
	}
	version, err := s.version(ctx)
	newest, newestErr := newestState()
	switch err := errors.Join(err, newestErr); {
	case err != nil:
		return append(privileges, unknown(subject, err))
	case version < newest:
		return append(privileges, outbox.Finding{Level: outbox.LevelWarning, Subject: subject,
			Text: fmt.Sprintf("they are of version %d, and this program needs %d", version, newest),
			Fix:  "`outrider init`, as their owner, upgrades them; so does `outrider run`"})
	}
	return append([]outbox.Finding{fine(subject, "there, in schema "+s.pool.schema.name)}, privileges...)
}

// examinePrivileges compares those of the role with what a relay and what operators'
// commands need.
func (s *State) examinePrivileges(ctx context.Context) (found []outbox.Finding, broken bool) {
	const subject = "state privileges"
	grants := StateGrants(s.pool.schema.name)
	relay, role, err := grants.missing(ctx, s.pool, TaskRelay)
	var operator Grants
	if err == nil {
		operator, _, err = grants.missing(ctx, s.pool, TaskOperator)
	}
	switch {
	case err != nil:
		return []outbox.Finding{unknown(subject, err)}, true
	case len(operator) > 0 && len(operator) < len(relay):
		return []outbox.Finding{{Level: outbox.LevelBroken, Subject: subject,
			Text: fmt.Sprintf("role %s lacks %d of what operators' commands need, and %d of what a relay needs", role, len(operator), len(relay)),
			Fix:  operator.fix(role)}}, true
	case len(relay) > 0 && len(operator) > 0:
		return []outbox.Finding{{Level: outbox.LevelBroken, Subject: subject,
			Text: fmt.Sprintf("role %s lacks %d of what a relay needs", role, len(relay)), Fix: relay.fix(role)}}, true
	case len(relay) > 0:
		return []outbox.Finding{{Level: outbox.LevelWarning, Subject: subject,
			Text: fmt.Sprintf("role %s has what operators' commands need, and lacks %d of what a relay needs", role, len(relay)),
			Fix:  "connect a relay as another role, or: " + relay.fix(role)}}, false
	case len(operator) > 0:
		return []outbox.Finding{fine(subject, fmt.Sprintf("role %s has what a relay needs; resume, route forget and other operators' commands need more: %s",
			role, operator.fix(role)))}, false
	}
	return []outbox.Finding{fine(subject, fmt.Sprintf("role %s has what a relay and operators' commands need", role))}, false
}

// examineWork tells who works and what waits for an operator.
func (s *State) examineWork(ctx context.Context) []outbox.Finding {
	lanes, err := s.Lanes(ctx)
	if err != nil {
		return []outbox.Finding{unknown("lanes", err)}
	}
	return outbox.ExamineLanes(lanes)
}
