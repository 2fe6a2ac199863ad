package statestore_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/mysql/statestore"
	"github.com/outriderhq/outrider/internal/testenv"
)

// openOnly opens a store that the test closes.
func openOnly(t *testing.T, at string) (*statestore.Store, error) {
	t.Helper()
	return statestore.New(t.Context(), statestore.Config{URL: at})
}

// user creates a user without rights, and returns the URL of a database as that user.
func user(t *testing.T, at, name string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	db := connect(t, at)
	execute(t, db, "CREATE USER '"+name+"'@'%' IDENTIFIED BY 'secret'")
	t.Cleanup(func() {
		if _, err := db.ExecContext(context.Background(), "DROP USER '"+name+"'@'%'"); err != nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(name, "secret")
	return u.String()
}

// runText executes the statements of a text, each of which ends a line.
func runText(t *testing.T, at, text string) {
	t.Helper()
	db := connect(t, at)
	for statement := range strings.SplitSeq(text, ";\n") {
		var lines []string
		for line := range strings.SplitSeq(statement, "\n") {
			if !strings.HasPrefix(line, "-- ") {
				lines = append(lines, line)
			}
		}
		if s := strings.TrimSpace(strings.Join(lines, "\n")); s != "" {
			execute(t, db, s)
		}
	}
}

// An installation is made by what init prints, and users do with what is granted there what they have to.
func TestG12_UsersByWhatInitPrints(t *testing.T) {
	t.Parallel()
	at := testenv.MySQL(t)
	suffix := strings.ToLower(rand.Text())[:12]
	relayURL, operatorURL := user(t, at, "relay_"+suffix), user(t, at, "op_"+suffix)
	text, err := statestore.InitSQL()
	if err != nil {
		t.Fatal(err)
	}
	runText(t, at, text+statestore.Grants().SQL("relay_"+suffix, "op_"+suffix+"@%", ""))

	relay := joinedState(t, relayURL, "a") // nothing is left to migrate
	lanes := acquireAll(t, relay, "a")
	s := settlements(lanes, 5)
	s[0].Park = []adapters.Parked{{Seq: 1, Group: "g", Status: adapters.ParkedDead, ID: "e", LastError: "no"}}
	if fenced, err := relay.Settle(t.Context(), s); err != nil || len(fenced) != 0 {
		t.Fatal(fenced, err)
	}
	if err := relay.Record(t.Context(), []adapters.SeenEvent{{EventRef: adapters.EventRef{Route: "r", ID: "e"}, Keep: time.Hour}}); err != nil {
		t.Error(err)
	}
	if _, err := relay.Forget(t.Context(), "r", true, "relay"); err == nil || !strings.Contains(err.Error(), "denied") {
		t.Errorf("a relay's user forgets a route: %v", err)
	}

	operator, err := openOnly(t, operatorURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = operator.Close() })
	for what, do := range map[string]func() error{
		"pause": func() error {
			_, err := operator.Pause(t.Context(), adapters.Pause{Route: "other", By: "me"})
			return err
		},
		"redrive": func() error {
			_, err := operator.ChangeParked(t.Context(), adapters.ParkedCommand{Action: adapters.ParkedRedrive, All: true, By: "me"})
			return err
		},
		"forget": func() error { _, err := operator.Forget(t.Context(), "none", false, "me"); return err },
		"remove": func() error { _, err := operator.RemoveInstance(t.Context(), "none", "me"); return err },
		"audit":  func() error { _, err := operator.ReadAudit(t.Context(), 0, 9); return err },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := operator.Join(t.Context(), "b", time.Hour); err == nil {
		t.Error("an operator's user joined as an instance")
	}
	records, err := operator.ReadAudit(t.Context(), 0, 1)
	if err != nil || len(records) != 1 || !strings.HasPrefix(records[0].Role, "op_"+suffix+"@") || time.Since(records[0].At).Abs() > time.Hour {
		t.Errorf("audited %+v, %v", records, err)
	}
	wantFinding(t, relay, "has what a relay needs", adapters.LevelOK)
	wantFinding(t, operator, "lacks some of what a relay needs", adapters.LevelWarning)
	if only, err := operator.OperatorsLogin(t.Context()); err != nil || !only {
		t.Errorf("an operator's login: %v, %v", only, err)
	}
	if only, err := relay.OperatorsLogin(t.Context()); err != nil || only {
		t.Errorf("a relay's login is an operator's: %v, %v", only, err)
	}
	execute(t, connect(t, at), "REVOKE UPDATE ON outrider_cursor FROM 'relay_"+suffix+"'@'%'")
	wantFinding(t, relay, "lacks some", adapters.LevelBroken)
}

// wantFinding wants a finding about privileges.
func wantFinding(t *testing.T, state *statestore.Store, text string, level adapters.Level) {
	t.Helper()
	for _, f := range state.Examine(t.Context()) {
		if f.Subject == "state privileges" {
			if f.Level != level || !strings.Contains(f.Text, text) {
				t.Errorf("doctor says %+v, want %q", f, text)
			}
			return
		}
	}
	t.Errorf("doctor says nothing of privileges: %+v", state.Examine(t.Context()))
}

func TestAUserWithoutRightsIsToldWhoCreatesTheTables(t *testing.T) {
	t.Parallel()
	at := testenv.MySQL(t)
	name := "none_" + strings.ToLower(rand.Text())[:12]
	as := user(t, at, name)
	execute(t, connect(t, at), "GRANT CREATE TEMPORARY TABLES ON *.* TO '"+name+"'@'%'")
	state, err := openOnly(t, as)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Close() })
	if err := state.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "init") {
		t.Errorf("got %v", err)
	}
	if _, err := state.Lanes(t.Context()); err == nil {
		t.Error("it read the lanes")
	}
}

func TestTheStateIsReachedByTLS(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	server := testenv.StartSecureMariaDB(t, authority)
	trusted := &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
	at := server.Database()
	execute(t, connect(t, at), "CREATE USER safe IDENTIFIED BY 'x' REQUIRE SSL", "GRANT ALL ON *.* TO safe")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("safe", "x")
	state, err := statestore.New(t.Context(), statestore.Config{URL: u.String(), TLS: statestore.TLS{Config: trusted}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = state.Close() }()
	if err := state.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := state.Join(t.Context(), "a", time.Hour); err != nil {
		t.Error(err)
	}
}
