package system_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// encoded is a database of an encoding, on which the test's own statements are in UTF-8.
func encoded(t *testing.T, encoding string) *tables {
	t.Helper()
	url := testenv.Postgres(t)
	open := func(url string) *pgxpool.Pool {
		cfg, err := pgxpool.ParseConfig(url)
		must(t, err)
		cfg.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		must(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	at, params, _ := strings.Cut(url, "?")
	name := at[strings.LastIndex(at, "/")+1:] + "_" + strings.ToLower(encoding)
	first := open(url)
	_, err := first.Exec(t.Context(), "CREATE DATABASE "+name+" ENCODING "+encoding+" LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	must(t, err)
	t.Cleanup(func() { _, _ = first.Exec(t.Context(), "DROP DATABASE "+name+" WITH (FORCE)") })
	w := &tables{t: t, url: at[:strings.LastIndex(at, "/")+1] + name + "?" + params}
	w.here = open(w.url)
	return w
}

// A database stores only the characters of its encoding: an error is written without the other characters, and all other values are
// unchanged.
func TestG1_DatabasesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	for encoding, name := range map[string]string{"LATIN1": "Müller", "EUC_JP": "受け", "UTF8": "受け😀", "SQL_ASCII": "Müller"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			w := encoded(t, encoding)
			_, err := owntable.Init(t.Context(), w.here, "copy")
			must(t, err)
			_, err = w.here.Exec(t.Context(), `CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text NOT NULL, body text NOT NULL, state text NOT NULL DEFAULT 'pending',
    grp text, made timestamptz NOT NULL DEFAULT clock_timestamp(), taken timestamptz, tries int NOT NULL DEFAULT 0, next_at timestamptz, err text)`)
			must(t, err)
			receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "bad") {
					rw.WriteHeader(http.StatusUnprocessableEntity)
					_, _ = rw.Write([]byte("受け取れません 😀 é"))
				}
			}))
			t.Cleanup(receiver.Close)
			config := fmt.Sprintf(`
sources:
  app: {type: postgres, url: %[1]q, poll: {max: 20ms}}
  jobs: {type: postgres, url: %[1]q, layout: custom, table: jobs, poll: {max: 20ms}, queue: {key: id, type: kind, payload: body, status: state, created: made, claimed: taken,
    group: grp, attempts: tries, next_attempt: next_at, error: err}}
destinations:
  api: {type: http, url: %[2]q, batch: {max_messages: 1}}
  copy: {type: sql, url: %[1]q, table: copy}
routes:
  own: {from: app, to: api}
  jobs: {from: jobs, to: api}
  copy: {from: app, to: copy}
admin: {listen: off}
`, w.url, receiver.URL)
			defer w.run(config)()
			for _, payload := range []string{`{"n": 1}`, `{"bad": 2}`, fmt.Sprintf(`{"name": %q}`, name)} {
				_, err := w.here.Exec(t.Context(), "INSERT INTO outrider_outbox (type, message_group, payload) VALUES ('k', $1, $2)", name, payload)
				must(t, err)
				_, err = w.here.Exec(t.Context(), "INSERT INTO jobs (kind, body, grp) VALUES ('k', $2, $1)", name+payload, payload)
				must(t, err)
			}
			cfg, err := outrider.ParseConfig("test", []byte(config))
			must(t, err)
			e, err := outbox.New("k").Group(name).RawJSON(fmt.Appendf(nil, `{"name": %q}`, name)).Build()
			must(t, err)
			must(t, operate.Publish(t.Context(), cfg, "app", e))
			for what, want := range map[string]string{
				"SELECT string_agg(state, ' ' ORDER BY id) FROM jobs":                                                             "done dead done",
				"SELECT count(*) || min(message_group) || max(message_group) || max(payload->>'name') FROM copy":                  "4" + name + name + name,
				"SELECT count(*) || min(status) || sum(CASE WHEN last_error LIKE '%422%' THEN 1 ELSE 0 END) FROM outrider_parked": "1dead1",
			} {
				got := ""
				for end := time.Now().Add(time.Minute); got != want && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					if err := w.here.QueryRow(t.Context(), what).Scan(&got); err != nil {
						got = err.Error()
					}
				}
				if got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
			held := map[string]string{"LATIN1": "??????? ? é", "EUC_JP": "??????? ? ?"}[encoding]
			if n := w.count(w.here, "SELECT count(*) FROM jobs WHERE err LIKE '%"+held+"%'"); n != 1 {
				t.Errorf("the error is not there with %q", held)
			}
		})
	}
}
