package statestore

import (
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
)

// examineRights warns of a state file that every user of this machine can open: parked messages have their payloads in it.
func (s *Store) examineRights(ctx context.Context) []adapters.Finding {
	var name string
	if s.db.QueryRowContext(ctx, `SELECT coalesce(max(file), '') FROM pragma_database_list WHERE name = 'main'`).Scan(&name) != nil || runtime.GOOS == "windows" {
		return nil
	}
	var files []string
	for _, file := range []string{name, name + "-wal", name + "-shm"} {
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o007 != 0 {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return []adapters.Finding{{Level: adapters.LevelWarning, Subject: "rights of the state file",
		Text: "every user of this machine can open " + strings.Join(files, ", ") + ", with the payloads of parked messages", Fix: "chmod o= " + strings.Join(files, " ")}}
}

// stateTables are the tables that the state store writes.
var stateTables = []string{"outrider_cursor", "outrider_instance", "outrider_parked", "outrider_audit", "outrider_pause"}

// Examine implements [adapters.Examiner].
func (s *Store) Examine(ctx context.Context) []adapters.Finding {
	var missing []string
	for _, table := range stateTables {
		var n int
		err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?`, table).Scan(&n)
		if err != nil {
			return []adapters.Finding{{Level: adapters.LevelBroken, Subject: "database file", Text: err.Error(),
				Fix: "correct the path; the file and its folder must be readable and writable"}}
		}
		if n == 0 {
			missing = append(missing, table)
		}
	}
	if len(missing) > 0 {
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: "state tables", Text: strings.Join(missing, ", ") + " do not exist yet",
			Fix: "`outrider init` or `outrider run` creates and upgrades them"}}
	}
	f := append([]adapters.Finding{{Subject: "state tables", Text: "there"}}, s.examineRights(ctx)...)
	lanes, err := s.Lanes(ctx)
	if err != nil {
		return append(f, adapters.Finding{Level: adapters.LevelUnknown, Subject: "lanes", Text: err.Error()})
	}
	return append(f, state.ExamineLanes(lanes)...)
}
