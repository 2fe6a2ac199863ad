package main

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// roleSite is a folder with the configuration of a role.
func roleSite(t *testing.T, address, role, state, retention string) *site {
	t.Helper()
	s := newSite(t, "")
	s.write(fmt.Sprintf(`
admin: {listen: off}
%s
sources:
  app: {type: postgres, table: shop.events, url: %q, retention: {mode: %s, keep: 1d}}
destinations:
  nowhere: {type: discard}
routes:
  orders: {from: app, to: nowhere}
`, state, asRole(t, address, role), retention))
	return s
}

// An installation is made by what init prints, and each of its roles does its work
// with what it was granted there, and no other's.
func TestG12_RolesByWhatInitPrints(t *testing.T) {
	t.Parallel()
	address := testenv.Postgres(t)
	suffix := strings.ToLower(rand.Text())
	relay, operator, publisher := "relay_"+suffix, `Operator "`+suffix, "shop_"+suffix
	quoted := map[string]string{relay: relay, operator: `"` + strings.ReplaceAll(operator, `"`, `""`) + `"`, publisher: publisher}
	for _, name := range quoted {
		createRole(t, address, name)
	}
	as := func(role string) *site { return roleSite(t, address, role, "state: {schema: Relay_State}", "delete") }
	printed := as("").call("init", "--print", "--relay", relay, "--operator", operator, "--publisher", publisher)
	if printed.code != 0 || strings.Contains(printed.out, "-- GRANT") || !strings.Contains(printed.out, "CREATE SCHEMA IF NOT EXISTS \"relay_state\"") {
		t.Fatal(printed)
	}
	runSQL(t, address, "CREATE SCHEMA shop; "+printed.out)
	if got := as("").call("init", "--print", "--relay", "a\nb"); got.code != 1 || !strings.Contains(got.err, "is not a role name") {
		t.Error(got)
	}
	for _, st := range []step{
		{args: "init --relay x", code: 1, err: []string{"go with --print"}},
		{args: "init --print", out: []string{"-- GRANT INSERT (\"by\", \"action\", \"filter\", \"changed\")", "TO \"outrider_relay\"", "-- state beside source app"}},
	} {
		st.run(t, as(""))
	}
	for _, st := range []step{
		{args: "init", out: []string{"table \"shop\".\"events\" exists", "state tables exist and are up to date"}},
		{args: "doctor", out: []string{"has what a relay needs; resume, route forget and other operators' commands need more: GRANT DELETE ON \"relay_state\".\"outrider_cursor\"", "no problems found"}},
	} {
		st.run(t, as(relay))
	}
	for _, st := range []step{
		{args: "doctor", out: []string{"has what operators' commands need, and lacks 12 of what a relay needs", "checked as an operator, who removes no rows"}},
		{args: "status", out: []string{"orders"}},
		{args: "pause orders", out: []string{"orders"}},
		{args: "resume orders", out: []string{"orders"}},
		{args: "publish --type a --payload 1", code: 1, err: []string{"permission denied"}},
	} {
		st.run(t, as(operator))
	}
	for _, st := range []step{
		{args: "publish --type a --id one --payload 1", out: []string{"one"}},
		{args: "status", code: 1, err: []string{"permission denied"}},
	} {
		st.run(t, as(publisher))
	}
}

// Only the owner of a table makes and drops its partitions. A relay's login that is not
// is broken; an operator's is as it should be.
func TestDoctorTellsOperatorsFromRelaysThatDoNotOwnTheirPartitions(t *testing.T) {
	t.Parallel()
	address := testenv.Postgres(t)
	suffix := strings.ToLower(rand.Text())
	relay, operator := "relay_"+suffix, "operator_"+suffix
	for _, name := range []string{relay, operator} {
		createRole(t, address, name)
	}
	as := func(role string) *site { return roleSite(t, address, role, "", "partitions") }
	printed := as("").call("init", "--print", "--relay", relay, "--operator", operator)
	runSQL(t, address, "CREATE SCHEMA shop; "+printed.out)
	checked := step{args: "doctor", out: []string{"has what operators' commands need", "checked as an operator, who removes no rows", "only their owner can look into the default one", "0 broken"}}
	checked.run(t, as(operator))
	step{args: "doctor", code: 1, out: []string{"only the table's owner can make and drop its partitions", "GRANT"}}.run(t, as(relay))
	runSQL(t, address, fmt.Sprintf("ALTER TABLE shop.events OWNER TO %s; GRANT CREATE ON SCHEMA shop TO %[1]s; ALTER TABLE shop.events_rest OWNER TO %[1]s", relay))
	step{args: "doctor", out: []string{"no problems found"}}.run(t, as(relay))
	checked.run(t, as(operator))
}
