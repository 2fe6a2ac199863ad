package statestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

var _ adapters.LoginChecker = (*Store)(nil)

// Examine implements [adapters.Examiner].
func (s *Store) Examine(ctx context.Context) []adapters.Finding {
	ctx, cancel := context.WithTimeout(ctx, pg.ExaminePatience)
	defer cancel()
	f, reached := pg.ExamineServer(ctx, s.pool.Pool)
	if !reached {
		return f
	}
	f = append(f, pg.ExaminePooler(ctx, s.pool.Pool, "ownership of lanes"), pg.ExamineClock(ctx, s.pool.Pool))
	tables := s.examineTables(ctx)
	f = append(f, tables...)
	if slices.ContainsFunc(tables, func(t adapters.Finding) bool {
		return t.Level != adapters.LevelOK && t.Subject != "state privileges" || t.Level == adapters.LevelBroken
	}) {
		return f
	}
	return append(f, s.examineWork(ctx)...)
}

// stateTables are the tables that the state store writes.
var stateTables = func() (names []string) {
	for _, r := range stateRights {
		if r.table != stateVersionTable {
			names = append(names, r.table)
		}
	}
	return names
}()

// stateTablesSubject is the subject of a finding about missing tables.
const stateTablesSubject = "state tables"

func (s *Store) examineTables(ctx context.Context) []adapters.Finding {
	const subject = stateTablesSubject
	var missing []string
	err := s.pool.QueryRow(ctx, `SELECT coalesce(array_agg(t.name ORDER BY t.n), '{}') FROM unnest($2::text[]) WITH ORDINALITY AS t(name, n)
WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = t.name)`,
		s.pool.schema.name, stateTables).Scan(&missing)
	if err != nil {
		return []adapters.Finding{pg.Unknown(subject, err)}
	}
	version, err := s.version(ctx)
	newest, newestErr := state.Newest(stateMigrations)
	if err == nil && newestErr == nil && version > 0 && version < newest {
		missing = nil // they come with the upgrade
	}
	if len(missing) > 0 {
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject, Text: strings.Join(missing, ", ") + " do not exist yet",
			Fix: "`outrider init` or `outrider run` creates and upgrades them"}}
	}
	var privileges []adapters.Finding
	if version >= newest { // else they concern tables that are not there yet
		var broken bool
		if privileges, broken = s.examinePrivileges(ctx); broken {
			return privileges
		}
	}
	switch err := errors.Join(err, newestErr); {
	case err != nil:
		return append(privileges, pg.Unknown(subject, err))
	case version < newest:
		return append(privileges, adapters.Finding{Level: adapters.LevelWarning, Subject: subject,
			Text: fmt.Sprintf("they are of version %d, and this program needs %d", version, newest),
			Fix:  "`outrider init`, as their owner, upgrades them; so does `outrider run`"})
	}
	return append([]adapters.Finding{pg.Fine(subject, "there, in schema "+s.pool.schema.name)}, privileges...)
}

// examinePrivileges compares those of the role with what a relay and what operators'
// commands need.
func (s *Store) examinePrivileges(ctx context.Context) (found []adapters.Finding, broken bool) {
	const subject = "state privileges"
	grants := Grants(s.pool.schema.name)
	relay, role, err := grants.Missing(ctx, s.pool, pg.TaskRelay)
	var operator pg.Grants
	if err == nil {
		operator, _, err = grants.Missing(ctx, s.pool, pg.TaskOperator)
	}
	switch {
	case err != nil:
		return []adapters.Finding{pg.Unknown(subject, err)}, true
	case len(operator) > 0 && len(operator) < len(relay):
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: subject,
			Text: fmt.Sprintf("role %s lacks %d of what operators' commands need, and %d of what a relay needs", role, len(operator), len(relay)),
			Fix:  operator.Fix(role)}}, true
	case len(relay) > 0 && len(operator) > 0:
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: subject,
			Text: fmt.Sprintf("role %s lacks %d of what a relay needs", role, len(relay)), Fix: relay.Fix(role)}}, true
	case len(relay) > 0:
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject,
			Text: fmt.Sprintf("role %s has what operators' commands need, and lacks %d of what a relay needs", role, len(relay)),
			Fix:  "connect a relay as another role, or: " + relay.Fix(role)}}, false
	case len(operator) > 0:
		return []adapters.Finding{pg.Fine(subject, fmt.Sprintf("role %s has what a relay needs; resume, route forget and other operators' commands need more: %s",
			role, operator.Fix(role)))}, false
	}
	return []adapters.Finding{pg.Fine(subject, fmt.Sprintf("role %s has what a relay and operators' commands need", role))}, false
}

// OperatorsLogin implements [adapters.LoginChecker].
func (s *Store) OperatorsLogin(ctx context.Context) (bool, error) {
	_, operator, err := Grants(s.pool.schema.name).OperatorOnly(ctx, s.pool)
	return operator, err
}

// examineWork reports which instances run and what waits for an operator.
func (s *Store) examineWork(ctx context.Context) []adapters.Finding {
	lanes, err := s.Lanes(ctx)
	if err != nil {
		return []adapters.Finding{pg.Unknown("lanes", err)}
	}
	return state.ExamineLanes(lanes)
}
