package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv"
)

// A transaction that keeps rows back is named by the cause of the route, and ended by its id.
func TestTheAPIEndsTransactions(t *testing.T) {
	t.Parallel()
	s, url := onPostgresAt(t, "")
	testenv.AgeTransactions(t, url)
	program, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = program.Close(t.Context()) })
	exec := func(sql string) {
		t.Helper()
		_, err := program.Exec(t.Context(), sql)
		must(t, err)
	}
	exec(`SET application_name = 'nightly-report'; CREATE TABLE report (n int); BEGIN; INSERT INTO report VALUES (7), ('8')`)
	var id string
	s.until("the route names it", func() bool {
		_, route := s.ask("read", "GET", "/routes/orders", "")
		id, _ = route["cause"].(map[string]any)["transaction"].(string)
		return id != ""
	})
	s.want("admin", "GET", "/transactions", "", `"id":"`+id+`"`, `"application":"nightly-report"`, `"state":"idle in transaction"`, `VALUES (7), ('***')`)
	end := fmt.Sprintf(`{"id": %q, "by": "alice"}`, id)
	for _, token := range []string{"read", "operate"} {
		s.refused(http.StatusForbidden, token, "GET", "/transactions", "")
		s.refused(http.StatusForbidden, token, "POST", "/transactions/end", end)
	}
	s.refused(http.StatusNotFound, "admin", "GET", "/transactions?source=none", "")
	s.refused(http.StatusNotFound, "admin", "POST", "/transactions/end", `{"id": "1", "source": "none"}`)
	s.refused(http.StatusUnprocessableEntity, "admin", "POST", "/transactions/end", `{"id": ""}`)
	s.refused(http.StatusUnprocessableEntity, "admin", "POST", "/transactions/end", `{"id": "a\u0000b"}`)
	s.want("admin", "POST", "/transactions/end", `{"id": "1-2-3"}`, `"ended":false`)
	exec(`COMMIT; BEGIN; INSERT INTO report VALUES (9)`)
	s.want("admin", "POST", "/transactions/end", end, `"ended":false`)
	exec(`SELECT 1`)
	later, ok := s.want("admin", "GET", "/transactions?source=app", "")["items"].([]any)[0].(map[string]any)["id"].(string)
	if !ok || later == id {
		t.Fatalf("the later transaction has the id %q", later)
	}
	s.want("admin", "POST", "/transactions/end", fmt.Sprintf(`{"id": %q, "source": "app", "by": "alice"}`, later), `"ended":true`, `"application":"nightly-report"`)
	if err := program.Ping(t.Context()); err == nil {
		t.Error("its session is still there")
	}
	if n := s.count(`SELECT sum(n) FROM report`); n != 15 {
		t.Errorf("the report has rows with the sum %d", n)
	}
	if n := s.count(fmt.Sprintf(auditSQL, "end transaction") + ` AND changed = 1 AND filter::jsonb ->> 'user' <> ''`); n != 1 {
		t.Errorf("%d audit records", n)
	}
}

// Where the database offers no such thing, the answer says so.
func TestTheAPISaysWhatCannotBeMended(t *testing.T) {
	t.Parallel()
	s := onSQLite(t)
	s.want("admin", "GET", "/transactions", "", `"items":[]`)
	s.refused(http.StatusConflict, "admin", "GET", "/transactions?source=app", "")
	s.refused(http.StatusForbidden, "operate", "POST", "/instances/none/remove", `{}`)
	s.want("admin", "POST", "/instances/none/remove", `{"by": "alice"}`, `"removed":false`)
	const topic = `{"topic": "orders"}`
	s.refused(http.StatusForbidden, "operate", "POST", "/destinations/hook/topics", topic)
	s.refused(http.StatusConflict, "admin", "POST", "/destinations/hook/topics", topic)
	s.refused(http.StatusNotFound, "admin", "POST", "/destinations/none/topics", topic)
	s.refused(http.StatusUnprocessableEntity, "admin", "POST", "/destinations/hook/topics", `{"topic": "orders", "partitions": -1}`)
	s.refused(http.StatusForbidden, "read", "POST", "/routes/orders/probe", `{"address": "x"}`)
	s.refused(http.StatusNotFound, "operate", "POST", "/routes/none/probe", `{"address": "x"}`)
	s.want("operate", "POST", "/routes/orders/probe", `{"address": "x"}`, `"trying":false`)
}
