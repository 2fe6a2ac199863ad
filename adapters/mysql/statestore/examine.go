package statestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

var _ adapters.LoginChecker = (*Store)(nil)

const (
	// examinePatience bounds an examination.
	examinePatience = 15 * time.Second

	// packetWanted is the smallest max_allowed_packet, in bytes, into which the largest message fits that a source reads by default.
	packetWanted = 64 << 20
)

// Examine implements [adapters.Examiner].
func (s *Store) Examine(ctx context.Context) []adapters.Finding {
	ctx, cancel := context.WithTimeout(ctx, examinePatience)
	defer cancel()
	f, reached := s.examineServer(ctx)
	if !reached {
		return f
	}
	tables, there := s.examineTables(ctx)
	if f = append(f, tables...); !there {
		return f
	}
	lanes, err := s.Lanes(ctx)
	if err != nil {
		return append(f, unknown("lanes", err))
	}
	return append(f, state.ExamineLanes(lanes)...)
}

// unknown is the finding about a check that could not run.
func unknown(subject string, err error) adapters.Finding {
	return adapters.Finding{Level: adapters.LevelUnknown, Subject: subject, Text: err.Error()}
}

func (s *Store) examineServer(ctx context.Context) (f []adapters.Finding, reached bool) {
	var version, format string
	var readOnly bool
	var packet, clock int64
	before := time.Now()
	err := s.db.QueryRowContext(ctx, `SELECT version(), @@global.read_only, @@max_allowed_packet, @@binlog_format, `+now).
		Scan(&version, &readOnly, &packet, &format, &clock)
	took := time.Since(before)
	if err != nil {
		fix := my.ConnectionFix(err)
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: "server", Text: err.Error(), Fix: fix}}, false
	}
	f = append(f, adapters.Finding{Subject: "server", Text: version})
	if readOnly {
		f = append(f, adapters.Finding{Level: adapters.LevelWarning, Subject: "server", Text: "it is read_only: state cannot be written, unless this user may do it all the same",
			Fix: "name the primary in the url"})
	}
	if packet < packetWanted {
		f = append(f, adapters.Finding{Level: adapters.LevelWarning, Subject: "max_allowed_packet",
			Text: fmt.Sprintf("%d bytes: a message that does not fit cannot be parked, and its lane stands still", packet),
			Fix:  fmt.Sprintf("SET GLOBAL max_allowed_packet = %d, and in the server's configuration; or lower max_row of the sources below it", packetWanted)})
	}
	if format == "STATEMENT" {
		f = append(f, adapters.Finding{Level: adapters.LevelBroken, Subject: "binlog_format",
			Text: "STATEMENT: InnoDB refuses to write at READ COMMITTED then", Fix: "SET GLOBAL binlog_format = 'ROW', or MIXED, and in the server's configuration"})
	}
	return append(f, adapters.ExamineClock("clock", time.UnixMicro(clock).Sub(before.Add(took/2)), took/2)), true
}

func (s *Store) examineTables(ctx context.Context) (f []adapters.Finding, there bool) {
	const subject = "state tables"
	version, err := s.version(ctx)
	newest, newestErr := state.Newest(stateMigrations)
	switch err := errors.Join(err, newestErr); {
	case my.FailedWith(err, my.TableDenied):
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: "state privileges", Text: err.Error(),
			Fix: "`outrider init --print` prints the GRANTs"}}, false
	case err != nil:
		return []adapters.Finding{unknown(subject, err)}, false
	case version == 0:
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject, Text: "they do not exist yet, or this user has no right on them",
			Fix: "`outrider init` or `outrider run` creates and upgrades them"}}, false
	case version < newest:
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject, Text: fmt.Sprintf("they are of version %d, and this program needs %d", version, newest),
			Fix: "`outrider init`, as a user who may alter them, upgrades them; so does `outrider run`"}}, false
	}
	f, there = s.examinePrivileges(ctx)
	if engine, err := s.otherEngine(ctx); err == nil && engine != "" {
		f = append(f, adapters.Finding{Level: adapters.LevelBroken, Subject: subject, Text: engine + " is not kept by InnoDB: it has no transactions, and messages would be lost",
			Fix: "ALTER TABLE " + engine + " ENGINE = InnoDB"})
	}
	return append([]adapters.Finding{{Subject: subject, Text: "there"}}, f...), there
}

// otherEngine is a table of ours that another engine than InnoDB keeps; empty: none.
func (s *Store) otherEngine(ctx context.Context) (name string, err error) {
	names := make([]string, len(stateRights))
	for i, r := range stateRights {
		names[i] = my.Literal(r.table)
	}
	err = s.db.QueryRowContext(ctx, `SELECT coalesce(min(table_name), '') FROM information_schema.tables
WHERE table_schema = database() AND engine <> 'InnoDB' AND table_name IN (`+strings.Join(names, ", ")+`)`).Scan(&name)
	return name, err
}

// examinePrivileges compares those of the user with what a relay and what operators'
// commands need. there is false when it has neither.
func (s *Store) examinePrivileges(ctx context.Context) (f []adapters.Finding, there bool) {
	const subject = "state privileges"
	relay, user, err := Grants().Missing(ctx, s.db, my.TaskRelay)
	var operator my.Grants
	if err == nil {
		operator, _, err = Grants().Missing(ctx, s.db, my.TaskOperator)
	}
	switch {
	case err != nil:
		return []adapters.Finding{unknown(subject, err)}, false
	case len(operator) > 0 && len(operator) < len(relay):
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: subject, Text: "user " + user + " lacks some of what operators' commands need", Fix: operator.Fix(user)}}, false
	case len(relay) > 0 && len(operator) > 0:
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: subject, Text: "user " + user + " lacks some of what a relay needs", Fix: relay.Fix(user)}}, false
	case len(relay) > 0:
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject, Text: "user " + user + " has what operators' commands need, and lacks some of what a relay needs",
			Fix: "connect a relay as another user, or: " + relay.Fix(user)}}, true
	case len(operator) > 0:
		return []adapters.Finding{{Subject: subject, Text: "user " + user + " has what a relay needs; resume, route forget and other operators' commands need more: " + operator.Fix(user)}}, true
	}
	return []adapters.Finding{{Subject: subject, Text: "user " + user + " has what a relay and operators' commands need"}}, true
}

// OperatorsLogin implements [adapters.LoginChecker].
func (s *Store) OperatorsLogin(ctx context.Context) (bool, error) {
	relay, _, err := Grants().Missing(ctx, s.db, my.TaskRelay)
	if err != nil || len(relay) == 0 {
		return false, err
	}
	operator, _, err := Grants().Missing(ctx, s.db, my.TaskOperator)
	return err == nil && len(operator) == 0, err
}
