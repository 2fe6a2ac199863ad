package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// The tables of the three systems in MySQL, as their documents have them.
const (
	mysqlFramework = `CREATE TABLE outbox_event (event_id VARCHAR(36) PRIMARY KEY, event_type VARCHAR(128) NOT NULL, aggregate_type VARCHAR(64), aggregate_id VARCHAR(128),
		tenant_id VARCHAR(64), payload JSON NOT NULL, headers JSON, status TINYINT NOT NULL, attempts INT NOT NULL DEFAULT 0, available_at DATETIME(6) NOT NULL,
		created_at DATETIME(6) NOT NULL, done_at DATETIME(6), last_error TEXT)`
	mysqlFlowCatalyst = `CREATE TABLE %s (id VARCHAR(13) PRIMARY KEY, type VARCHAR(20) NOT NULL, message_group VARCHAR(255), payload TEXT NOT NULL, status VARCHAR(20) NOT NULL,
		retry_count INT NOT NULL DEFAULT 0, created_at TIMESTAMP NOT NULL, processed_at TIMESTAMP NULL, error_message TEXT)`
	mysqlTalkie = "CREATE TABLE outbox (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, job_id CHAR(36), topic VARCHAR(255) NOT NULL, `key` VARCHAR(255), payload_json LONGTEXT NOT NULL, " +
		"idempotency_key VARCHAR(255), status VARCHAR(20) NOT NULL DEFAULT 'pending', retry_count INT NOT NULL DEFAULT 0, next_attempt_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), " +
		"created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), UNIQUE KEY ux (topic, idempotency_key))"
)

// mysqlDB opens an application's connections to a database of its own, with the tables, and with settings of the driver and the session.
func mysqlDB(t *testing.T, address string, set func(*mysql.Config), tables ...string) *sql.DB {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = u.User.Username(), "tcp", u.Host, u.Path[1:]
	cfg.Passwd, _ = u.User.Password()
	if set != nil {
		set(cfg)
	}
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { must(t, db.Close()) })
	for _, table := range tables {
		_, err := db.ExecContext(t.Context(), table)
		must(t, err)
	}
	return db
}

// mysqlSessions are sessions that applications have, by name.
var mysqlSessions = map[string]func(*mysql.Config){
	"plain":        nil,
	"interpolated": func(c *mysql.Config) { c.InterpolateParams, c.ClientFoundRows = true, true },
	"lax, far from UTC": func(c *mysql.Config) {
		c.ParseTime, c.Params = true, map[string]string{"sql_mode": "'ANSI_QUOTES'", "time_zone": "'+05:00'"}
	},
}

func mysqlText(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	must(t, err)
	defer func() { must(t, rows.Close()) }()
	var all []string
	for rows.Next() {
		var s string
		must(t, rows.Scan(&s))
		all = append(all, s)
	}
	must(t, rows.Err())
	return strings.Join(all, "; ")
}

// inJSON is a text as a column of the type JSON keeps it: MySQL writes it anew.
func inJSON(t *testing.T, db *sql.DB, text string) (kept string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer func() { must(t, conn.Close()) }()
	_, err = conn.ExecContext(t.Context(), "CREATE TEMPORARY TABLE json_text (v JSON)")
	must(t, err)
	_, err = conn.ExecContext(t.Context(), "INSERT INTO json_text VALUES (?)", text)
	must(t, err)
	must(t, conn.QueryRowContext(t.Context(), "SELECT v FROM json_text").Scan(&kept))
	_, err = conn.ExecContext(t.Context(), "DROP TEMPORARY TABLE json_text")
	must(t, err)
	return kept
}

func TestPublishOnMySQL(t *testing.T) {
	t.Parallel()
	for name, session := range mysqlSessions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := testenv.MySQL(t)
			db := mysqlDB(t, address, session, mysqlFramework, fmt.Sprintf(mysqlFlowCatalyst, "outbox_events"), fmt.Sprintf(mysqlFlowCatalyst, "outbox_dispatch_jobs"), mysqlTalkie)
			framework, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework", Dialect: outbox.MySQL})
			must(t, err)
			catalyst, err := outbox.NewFlowCatalyst(outbox.FlowCatalystConfig{Dialect: outbox.MySQL})
			must(t, err)
			talkie, err := outbox.NewTalkie(outbox.TalkieConfig{Dialect: outbox.MySQL})
			must(t, err)
			occurred := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
			payload := []byte(`{"a" : "it's \"é\" \\n 😀"}`)
			full, err := outbox.New("order.placed").RawJSON(payload).Aggregate("USER", "42").Tenant("acme").Header("k", "v").OccurredAt(occurred).ID("1").Build()
			must(t, err)
			plain, err := outbox.New("plain").Bytes([]byte(`1`)).OccurredAt(occurred).ID("2").Build()
			must(t, err)
			publish := func(end error) error {
				return outbox.InTx(t.Context(), db, func(ctx context.Context, _ *sql.Tx) error {
					must(t, framework.Publish(ctx, nil, full, plain))
					ids, err := catalyst.Publish(ctx, nil, outbox.FlowCatalystItem{Group: "g", Payload: payload}, outbox.FlowCatalystItem{Payload: []byte(`{}`)},
						outbox.FlowCatalystItem{Kind: outbox.FlowCatalystDispatchJob, Payload: []byte(`{}`)})
					if must(t, err); len(ids) != 3 {
						t.Errorf("ids %q", ids)
					}
					for i, m := range []outbox.TalkieMessage{{Topic: "t", Payload: payload, IdempotencyKey: "once"}, {Topic: "t", Payload: payload, IdempotencyKey: "once"},
						{Topic: "t", Payload: []byte(`2`), JobID: "123e4567-e89b-12d3-a456-426614174000"}, {Topic: "t", Payload: []byte(`3`), Key: "k"}} {
						id, err := talkie.Publish(ctx, nil, m)
						if must(t, err); (id == outbox.Duplicate) != (i == 1) {
							t.Errorf("message %d has id %d", i, id)
						}
					}
					return end
				})
			}
			if end := errors.New("no"); !errors.Is(publish(end), end) {
				t.Error("it was not rolled back")
			}
			must(t, publish(nil))
			utc := mysqlDB(t, address, func(c *mysql.Config) { c.Params = map[string]string{"time_zone": "'+00:00'"} })
			const recent = ` BETWEEN utc_timestamp() - INTERVAL 1 MINUTE AND utc_timestamp() + INTERVAL 1 MINUTE`
			for query, want := range map[string]string{
				`SELECT concat_ws(' ', event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at = created_at, created_at` + recent + `)
					FROM outbox_event ORDER BY event_id`: `1 order.placed USER 42 acme ` + inJSON(t, utc, string(payload)) + ` ` + inJSON(t, utc, `{"k":"v","outrider_occurred_at":"2024-02-29T12:00:00Z"}`) +
					` 0 0 1 1; 2 plain 1 ` + inJSON(t, utc, `{"outrider_occurred_at":"2024-02-29T12:00:00Z"}`) + ` 0 0 1 1`,
				`SELECT concat_ws(' ', type, message_group, payload, status, retry_count, created_at` + recent + `) FROM outbox_events ORDER BY id`: "EVENT g " + string(payload) + " PENDING 0 1; EVENT {} PENDING 0 1",
				`SELECT type FROM outbox_dispatch_jobs`: "DISPATCH_JOB",
				"SELECT concat_ws(' ', topic, job_id, `key`, payload_json, idempotency_key, status, created_at" + recent + ") FROM outbox ORDER BY id": "t " + string(payload) + " once pending 1; " +
					"t 123e4567-e89b-12d3-a456-426614174000 123e4567-e89b-12d3-a456-426614174000 2 pending 1; t k 3 pending 1",
			} {
				if got := mysqlText(t, utc, query); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
		})
	}
}

// A writer of a key that another transaction has written waits for its end, and is told what came of it.
func TestTalkieOnMySQLWaitsForTheOtherWriterOfAKey(t *testing.T) {
	t.Parallel()
	db := mysqlDB(t, testenv.MySQL(t), nil, mysqlTalkie)
	c, err := outbox.NewTalkie(outbox.TalkieConfig{Dialect: outbox.MySQL})
	must(t, err)
	m := outbox.TalkieMessage{Topic: "t", Payload: []byte(`1`), IdempotencyKey: "k"}
	for _, commit := range []bool{false, true} {
		first, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		_, err = c.Publish(t.Context(), first, m)
		must(t, err)
		second := make(chan int64)
		go func() {
			defer close(second)
			_ = outbox.InTx(t.Context(), db, func(ctx context.Context, _ *sql.Tx) error {
				id, err := c.Publish(ctx, nil, m)
				if err != nil {
					t.Error(err)
				}
				second <- id
				return errors.New("roll back")
			})
		}()
		if commit {
			must(t, first.Commit())
		} else {
			must(t, first.Rollback())
		}
		if id := <-second; (id == outbox.Duplicate) != commit {
			t.Errorf("the first was committed: %v, and the second got id %d", commit, id)
		}
		<-second
	}
}

func TestPublishOnMySQLSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]outbox.ClientConfig{
		"commit late":      {Dialect: outbox.MySQL},
		"is for PostgreSQ": {Dialect: outbox.MySQL, Layout: "yantra"},
		"leave them out":   {Dialect: outbox.MySQL, Layout: "outbox-framework", Notify: true},
		"64 characters":    {Dialect: outbox.MySQL, Layout: "outbox-framework", Table: strings.Repeat("t", 65)},
		"quotes":           {Dialect: outbox.MySQL, Layout: "outbox-framework", Table: "a`b"},
	} {
		if _, err := outbox.NewClient(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
	db := mysqlDB(t, testenv.MySQL(t), nil)
	c, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework", Dialect: outbox.MySQL})
	must(t, err)
	talkie, err := outbox.NewTalkie(outbox.TalkieConfig{Dialect: outbox.MySQL})
	must(t, err)
	e, err := outbox.New("t").RawJSON([]byte(`1`)).Build()
	must(t, err)
	b, err := outbox.New("t").Bytes([]byte{1}).Build()
	must(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	for want, err := range map[string]error{
		"outrider init":          c.Publish(t.Context(), tx, e),
		"the table's column":     c.Publish(t.Context(), tx, b),
		"publish inside":         c.Publish(t.Context(), db, e),
		"are more than the 5000": c.Publish(t.Context(), tx, make5001(e)...),
		"SELECT ... FOR UPDATE":  c.Lock(t.Context(), tx, "g"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, m := range map[string]outbox.TalkieMessage{
		"is 256 characters": {Topic: strings.Repeat("é", 256), Payload: []byte(`1`)},
		"is no UUID":        {Topic: "t", JobID: "7", Payload: []byte(`1`)},
		"outrider init":     {Topic: "t", Payload: []byte(`1`)},
	} {
		if _, err := talkie.Publish(t.Context(), tx, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func make5001(e outbox.Envelope) []outbox.Envelope {
	all := make([]outbox.Envelope, 5001)
	for i := range all {
		all[i] = e
	}
	return all
}

// refusing is a database whose COMMIT is answered by an error.
type refusing struct {
	db     *sql.DB
	answer error
}

type refusingTx struct {
	*sql.Tx
	answer error
}

func (d refusing) BeginTx(ctx context.Context, opts *sql.TxOptions) (refusingTx, error) {
	tx, err := d.db.BeginTx(ctx, opts)
	return refusingTx{tx, d.answer}, err
}

func (t refusingTx) Commit() error {
	_ = t.Rollback()
	return fmt.Errorf("commit: %w", t.answer)
}

func TestG1_InTxKnowsWhatMySQLAnswersACommitWith(t *testing.T) {
	t.Parallel()
	db := mysqlDB(t, testenv.MySQL(t), nil)
	for answer, known := range map[error]bool{
		&mysql.MySQLError{Number: 1213, Message: "Deadlock"}: true, // as a cluster refuses a COMMIT
		&mysql.MySQLError{Number: 1053, Message: "shutdown"}: false,
		mysql.ErrInvalidConn: false,
	} {
		rolledBack := false
		err := outbox.InTx(t.Context(), refusing{db, answer}, func(ctx context.Context, _ refusingTx) error {
			return outbox.AfterRollback(ctx, func(context.Context) { rolledBack = true })
		})
		if err == nil || errors.Is(err, outbox.ErrOutcomeUnknown) == known || rolledBack != known {
			t.Errorf("%v: the hook of a rollback ran: %v, want %v (%v)", answer, rolledBack, known, err)
		}
	}
}
