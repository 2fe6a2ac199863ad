package main

import (
	"fmt"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// What operators do with state in MariaDB.
func TestStateInMySQL(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.write(fmt.Sprintf(`
admin: {listen: off}
state: {url: %q}
sources:
  app: {type: sqlite, path: %q}
destinations:
  nowhere: {type: discard}
routes:
  orders: {from: app, to: nowhere}
`, testenv.MySQL(t), t.TempDir()+"/app.db"))
	for _, st := range []step{
		{args: "init --print --relay relay --operator op@10.0.0.1", out: []string{"CREATE TABLE IF NOT EXISTS outrider_cursor", "GRANT SELECT, INSERT, UPDATE ON `outrider_cursor` TO 'relay'@'%'",
			"GRANT SELECT, INSERT (`by`, `action`, `filter`, `changed`) ON `outrider_audit` TO 'op'@'10.0.0.1'"}},
		{args: "doctor", code: 1, out: []string{"they do not exist yet"}},
		{args: "init", out: []string{"state tables"}},
		{args: "doctor", out: []string{"MariaDB", "has what a relay and operators' commands need"}},
		{args: "pause orders", out: []string{"orders"}},
		{args: "status", out: []string{"orders", "paused"}},
		{args: "resume orders", out: []string{"orders"}},
		{args: "seek orders --to end --yes", out: []string{"orders"}},
		{args: "parked list", out: []string{"no parked message matches"}},
	} {
		st.run(t, s)
	}
}
