package faults_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/outbox"
)

func TestG1_UndecodableRowsAreParkedWithTheReason(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	to := receive(t, nil)
	db.fill(batch{n: 300, groups: 3})
	for i, headers := range []string{`[1]`, `"text"`, `{"a": {"b": 1}}`} {
		db.exec(`INSERT INTO outrider_outbox (id, type, message_group, headers, payload) VALUES ($1, 't', 'g0', $2, '{}')`,
			fmt.Sprint("undecodable-", i), headers)
	}
	db.fill(batch{n: 300, groups: 3})
	r := start(t, settings{database: db.url, destination: toHTTP(to.url())}.text())
	r.until("delivered the others", func() bool { return to.arrived() >= 600 })
	r.until("parked what cannot be read", func() bool { return db.parked("status = 'dead'") == 3 })
	r.stop()
	reasons := one[[]string](db, "SELECT array_agg(event_id || ': ' || last_error ORDER BY event_id) FROM outrider_parked")
	for i, reason := range reasons {
		if !strings.Contains(reason, fmt.Sprint("undecodable-", i)) || !strings.Contains(reason, "headers") {
			t.Errorf("the reason does not name the row and the column: %s", reason)
		}
	}
	rows := slices.DeleteFunc(db.rows(), func(r check.Row) bool { return strings.HasPrefix(r.ID, "undecodable-") })
	report := check.Compare(rows, to.all()...)
	t.Logf("3 undecodable rows, parked as dead (%s); of the others: %v", reasons[0], report)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("not clean: %v", report)
	}
}

func TestStartTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		breakIt string
		want    []string
	}{
		"table":     {"DROP TABLE outrider_outbox", []string{"outrider_outbox", "outrider init"}},
		"column":    {"ALTER TABLE outrider_outbox DROP COLUMN headers", []string{"outrider_outbox", "headers"}},
		"privilege": {"REVOKE ALL ON outrider_outbox FROM {role}", []string{"outrider_outbox", "GRANT SELECT ON"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			role := newRole(db)
			db.exec(strings.ReplaceAll(tt.breakIt, "{role}", role))
			u, err := url.Parse(db.url)
			must(t, err)
			u.User = url.User(role)
			r := start(t, settings{database: u.String(), destination: "type: discard"}.text())
			if err := r.wait(); err == nil {
				t.Error("the relay ended with status 0, want a failure")
			}
			for _, want := range tt.want {
				if !strings.Contains(r.output(), want) {
					t.Errorf("the output does not say %q:\n%s", want, r.output())
				}
			}
		})
	}
}

// newRole makes a role that may do everything in the database.
func newRole(db *database) string {
	db.t.Helper()
	role := "faults_" + strings.ToLower(ulid.Make().String())
	db.exec("CREATE ROLE " + role + " LOGIN")
	db.t.Cleanup(func() { // the test's context is over, its database is not
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, db.url)
		must(db.t, err)
		for _, statement := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				db.t.Errorf("%s: %v", statement, err)
			}
		}
		must(db.t, conn.Close(ctx))
	})
	db.exec("GRANT ALL ON ALL TABLES IN SCHEMA public TO " + role)
	db.exec("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO " + role)
	db.exec("GRANT ALL ON SCHEMA public TO " + role)
	return role
}

func TestPublishRefusesTooLargePayloads(t *testing.T) {
	t.Parallel()
	_, err := outbox.New("t").Bytes(make([]byte, 1<<20+1)).Build()
	if err == nil || !strings.Contains(err.Error(), "payload") || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("got %v, want an error that names the payload and the limit", err)
	}
}
