package system_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// lookalikes is an attack by a role that may CREATE in a schema of another role's
// search path: functions and operators with the names that we call, for argument
// types that match ours as well as PostgreSQL's own or better, and tables with the
// catalogue's names. Each counts its calls (in a sequence, so that the count survives
// a rollback) and fails.
//
//nolint:dupword // SQL
const lookalikes = `
SET search_path = pg_catalog; -- it does not fall for itself
CREATE SEQUENCE public.caught;
GRANT ALL ON SEQUENCE public.caught TO public;
CREATE FUNCTION public.catch(what text) RETURNS bool LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_catalog.nextval(''public.caught''); RAISE EXCEPTION ''caught: % as %'', what, current_user; END';

DO $do$
DECLARE f record; k int; types text[]; t text; result text;
BEGIN
    FOR f IN SELECT p.oid, p.proname, p.proargtypes::oid[] AS args, p.prorettype, p.proretset FROM pg_proc p
             WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a') AND p.pronargs <= 4
               AND 'internal'::regtype <> ALL (p.proargtypes::oid[]) AND p.provariadic = 0
               AND (p.proname ~ '^(pg_|has_|current_|to_reg|row_security|array_|json|txid)' OR p.proname IN ('hashtextextended', 'unnest', 'cardinality',
                   'clock_timestamp', 'now', 'set_config', 'format', 'format_type', 'lower', 'md5', 'octet_length', 'count', 'min', 'max', 'sum',
                   'make_interval', 'date_part', 'extract', 'generate_series', 'gen_random_uuid', 'age', 'length', 'concat_ws', 'regexp_match',
                   'nextval', 'timezone', 'xid8', 'int8', 'text', 'float8', 'interval', 'timestamptz', 'row_number', 'convert_to'))
    LOOP
        FOR k IN 0..3 LOOP
            types := '{}';
            FOR i IN 0..coalesce(array_upper(f.args, 1), -1) LOOP
                t := CASE format_type(f.args[i], NULL)
                    WHEN 'bigint' THEN (ARRAY['bigint', 'integer', 'smallint', 'integer'])[k + 1]
                    WHEN 'integer' THEN (ARRAY['integer', 'bigint', 'smallint', 'bigint'])[k + 1]
                    WHEN 'text' THEN (ARRAY['text', 'character varying', 'name', 'character varying'])[k + 1]
                    WHEN 'anyarray' THEN (ARRAY['text[]', 'bigint[]', 'smallint[]', 'integer[]'])[k + 1]
                    WHEN 'anyelement' THEN (ARRAY['text', 'bigint', 'timestamptz', 'integer'])[k + 1]
                    WHEN 'any' THEN (ARRAY['text', 'bigint', 'timestamptz', 'integer'])[k + 1]
                    WHEN 'oid' THEN (ARRAY['oid', 'regclass', 'integer', 'text'])[k + 1]
                    WHEN 'regclass' THEN (ARRAY['regclass', 'text', 'character varying', 'oid'])[k + 1]
                    WHEN 'double precision' THEN (ARRAY['double precision', 'integer', 'numeric', 'bigint'])[k + 1]
                    WHEN 'timestamp with time zone' THEN (ARRAY['timestamptz', 'timestamp', 'timestamptz', 'timestamp'])[k + 1]
                    ELSE format_type(f.args[i], NULL) END;
                types := types || t;
            END LOOP;
            result := CASE WHEN (SELECT typtype FROM pg_type WHERE oid = f.prorettype) = 'p' THEN 'text' ELSE format_type(f.prorettype, NULL) END;
            BEGIN
                EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s%s LANGUAGE sql AS %L', f.proname, array_to_string(types, ', '),
                    CASE WHEN f.proretset THEN 'SETOF ' END, result,
                    format('SELECT NULL::%s FROM (SELECT public.catch(%L)) c', result, f.proname || '(' || array_to_string(types, ', ') || ')'));
            EXCEPTION WHEN others THEN NULL; -- made before, or of no use
            END;
        END LOOP;
    END LOOP;
END $do$;

DO $do$
DECLARE o text; l text; r text; n int := 0;
BEGIN
    FOREACH o IN ARRAY ARRAY['=', '<>', '<', '<=', '>', '>=', '||', '+', '-', '*', '&', '>>', '~~', '->>'] LOOP
        FOREACH l IN ARRAY ARRAY['text', 'character varying', 'name', 'smallint', 'integer', 'bigint', 'oid', 'regclass', 'timestamp', 'timestamptz', 'xid8', 'bigint[]'] LOOP
            FOREACH r IN ARRAY ARRAY['text', 'character varying', 'name', 'smallint', 'integer', 'bigint', 'oid', 'regclass', 'timestamp', 'timestamptz', 'xid8', 'bigint[]'] LOOP
                n := n + 1;
                BEGIN
                    EXECUTE format('CREATE FUNCTION public.op%s(%s, %s) RETURNS %s LANGUAGE sql IMMUTABLE AS %L', n, l, r,
                        CASE WHEN o ~ '[=<>~]' AND o !~ '>>' THEN 'bool' ELSE l END,
                        format('SELECT NULL::%s FROM (SELECT public.catch(%L)) c', CASE WHEN o ~ '[=<>~]' AND o !~ '>>' THEN 'bool' ELSE l END, l || ' ' || o || ' ' || r));
                    EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.op%s)', o, l, r, n);
                EXCEPTION WHEN others THEN NULL;
                END;
            END LOOP;
        END LOOP;
    END LOOP;
END $do$;

DO $do$
DECLARE c record;
BEGIN
    FOR c IN SELECT relname, oid FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') LOOP
        BEGIN
            EXECUTE format('CREATE VIEW public.%I AS SELECT * FROM pg_catalog.%I WHERE public.catch(%L)', c.relname, c.relname, c.relname);
            EXECUTE format('GRANT SELECT ON public.%I TO public', c.relname);
        EXCEPTION WHEN others THEN NULL;
        END;
    END LOOP;
END $do$;`

// victim is a database with a trap for superusers.
type victim struct {
	t    *testing.T
	url  string    // a superuser's
	conn *pgx.Conn // the test's own, without public in its search path
}

func newVictim(t *testing.T, database string) *victim {
	t.Helper()
	v := &victim{t: t, url: database}
	u, err := url.Parse(v.url)
	must(t, err)
	q := u.Query()
	q.Set("search_path", "pg_catalog")
	u.RawQuery = q.Encode()
	v.conn, err = pgx.Connect(t.Context(), u.String())
	must(t, err)
	t.Cleanup(func() { must(t, v.conn.Close(context.Background())) })
	return v
}

// attack runs statements in a database as a role that may do nothing but create in public. The role is dropped when the
// test ends.
func attack(t *testing.T, database, statements string) {
	t.Helper()
	role := "attacker_" + strings.ToLower(rand.Text())
	execute(t.Context(), t, database, "CREATE ROLE "+role+" LOGIN; GRANT USAGE, CREATE ON SCHEMA public TO "+role)
	t.Cleanup(func() { execute(context.Background(), t, database, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role) })
	u, err := url.Parse(database)
	must(t, err)
	u.User = url.User(role)
	execute(t.Context(), t, u.String(), statements)
}

// execute runs statements on a connection of their own.
func execute(ctx context.Context, t *testing.T, database, statements string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, database)
	must(t, err)
	_, err = conn.PgConn().Exec(ctx, statements).ReadAll()
	must(t, errors.Join(err, conn.Close(ctx)))
}

func (v *victim) exec(sql string) {
	v.t.Helper()
	_, err := v.conn.Exec(v.t.Context(), sql)
	must(v.t, err)
}

// caught counts what of the attacker's was called.
func (v *victim) caught() (n int) {
	v.t.Helper()
	must(v.t, v.conn.QueryRow(v.t.Context(), "SELECT coalesce(pg_sequence_last_value('public.caught'::regclass), 0)").Scan(&n))
	return n
}

// refuses is a destination that refuses every third message for good.
type refuses struct {
	mu   sync.Mutex
	seen int
}

func (*refuses) Address(*message.Message) (string, error) { return "here", nil }
func (*refuses) Ordering() adapters.Ordering              { return adapters.Ordering{Static: true} }
func (*refuses) Close() error                             { return nil }

func (r *refuses) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := make([]error, len(batch))
	for i := range batch {
		if r.seen++; r.seen%3 == 0 {
			errs[i] = outbox.Permanent(errors.New("refused"))
		}
	}
	return errs
}

func (r *refuses) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// We never call another role's functions with the rights of a superuser, whatever
// the search path.
func TestLookalikesAreNotCalled(t *testing.T) {
	t.Parallel()
	const watermillTable = `CREATE TABLE public.watermill_orders ("offset" bigserial, uuid varchar(36) NOT NULL, created_at timestamp NOT NULL DEFAULT now(),
		payload json, metadata json, transaction_id xid8 NOT NULL, PRIMARY KEY (transaction_id, "offset"));
		CREATE UNIQUE INDEX ON public.watermill_orders ("offset")`
	const eventsTable = `CREATE TABLE public.events (no bigserial PRIMARY KEY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), id varchar NOT NULL, body json,
		kind varchar, customer varchar, created timestamptz DEFAULT now()); CREATE INDEX ON public.events (xid, no)`
	const jobsTable = `CREATE TABLE public.jobs (id bigserial PRIMARY KEY, kind varchar NOT NULL, grp varchar, body jsonb, status varchar NOT NULL DEFAULT 'pending',
		created timestamp NOT NULL DEFAULT clock_timestamp(), claimed timestamp, tries smallint NOT NULL DEFAULT 0, next timestamptz, err varchar(4000))`
	attacked := testenv.Postgres(t)
	attack(t, attacked, lookalikes)
	for name, c := range map[string]struct{ source, table, insert string }{
		"outrider": {source: "wake: notify, retention: {keep: 1ms, every: 1s}"},
		"partitions": {source: "table: parts, retention: {keep: 1ms, mode: partitions, every: 1s, partition_rows: 10000}",
			insert: `INSERT INTO public.parts (type, message_group, payload) SELECT 't', i % 3, '{}' FROM generate_series(1, 30) i`},
		"flowcatalyst": {source: "layout: flowcatalyst, wake: notify",
			insert: `INSERT INTO public.outbox_events (id, type, message_group, payload, status, created_at)
				SELECT lpad(i::text, 13, '0'), 'EVENT', 'g' || i % 3, '{"type":"t"}', 'PENDING', clock_timestamp() FROM generate_series(1, 30) i`},
		"watermill": {source: "layout: watermill, topic: orders", table: watermillTable,
			insert: `INSERT INTO public.watermill_orders (uuid, payload, metadata, transaction_id) SELECT i::text, '{}', '{}', pg_current_xact_id() FROM generate_series(1, 30) i`},
		"custom log": {source: "layout: custom, table: events, columns: {position: no, xid: xid, id: id, payload: body, type: kind, group: customer, created_at: created}",
			table: eventsTable, insert: `INSERT INTO public.events (id, body, kind, customer) SELECT i::text, '{}', 't', i % 3 FROM generate_series(1, 30) i`},
		"custom queue": {source: "layout: custom, table: jobs, queue: {key: id, type: kind, payload: body, status: status, created: created, claimed: claimed, group: grp, attempts: tries, next_attempt: next, error: err}",
			table: jobsTable, insert: `INSERT INTO public.jobs (kind, grp, body) SELECT 't', i % 3, '{}' FROM generate_series(1, 30) i`},
	} {
		for _, path := range []string{`"$user", public`, `public, pg_catalog`}[:testenv.Brief(1, 2)] {
			t.Run(name+" with "+path, func(t *testing.T) {
				t.Parallel()
				v := newVictim(t, testenv.PostgresCopy(t, attacked))
				var database string
				must(t, v.conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&database))
				v.exec("ALTER DATABASE " + database + " SET search_path = " + path)
				if c.table != "" {
					v.exec(c.table)
				}
				v.everything(c.source, c.insert)
				if n := v.caught(); n != 0 {
					t.Errorf("%d calls of what somebody else has put there", n)
				}
			})
		}
	}
}

// everything is all that a superuser does with a source.
func (v *victim) everything(source, insert string) {
	t := v.t
	t.Helper()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources: {app: {type: postgres, url: %q, %s}}
destinations: {here: {type: publisher, topic: t}}
routes: {all: {from: app, to: here, start: beginning, middleware: [dedupe: {window: 1h}, poison: {then: continue}]}}
admin: {listen: "off"}
`, v.url, source))
	must(t, err)
	quiet := outrider.WithLogger(slog.New(slog.DiscardHandler))
	for range 2 {
		_, err = operate.Init(t.Context(), cfg, quiet)
		must(t, err)
		_, err = operate.InitWake(t.Context(), cfg)
		must(t, err)
	}
	n := 30
	if insert != "" {
		v.exec(insert)
	} else {
		n = v.publish(cfg)
	}
	v.deliver(cfg, n)
	for _, d := range doctor.Doctor(t.Context(), cfg, quiet) {
		if strings.Contains(d.Text, "caught") {
			t.Errorf("doctor: %s: %s", d.Subject, d.Text)
		}
	}
	v.operate(cfg)
}

// publish writes messages as an application and as the command do.
func (v *victim) publish(cfg *outrider.Config) int {
	t := v.t
	t.Helper()
	messages := make([]outbox.Envelope, 30)
	for i := range messages {
		var err error
		messages[i], err = outbox.New("t").Group(fmt.Sprint("g", i%3)).JSON(i).Build()
		must(t, err)
	}
	must(t, operate.Publish(t.Context(), cfg, "app", messages[:10]...))
	client, err := outbox.NewClient(outbox.ClientConfig{Notify: true})
	must(t, err)
	conn, err := pgx.Connect(t.Context(), v.url)
	must(t, err)
	defer func() { must(t, conn.Close(context.Background())) }()
	must(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		return errors.Join(client.Lock(t.Context(), tx, "g1", "g2"), client.Publish(t.Context(), tx, messages[10:29]...),
			client.Publish(t.Context(), tx, messages[29]))
	}))
	return len(messages)
}

// deliver runs a relay until it has settled all.
func (v *victim) deliver(cfg *outrider.Config, n int) {
	t := v.t
	t.Helper()
	got := &refuses{}
	relay, err := outrider.New(cfg, outrider.WithBatchDestination("here", got), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	deadline := time.After(time.Minute)
	for got.count() < n {
		select {
		case err := <-done:
			t.Fatalf("the relay ended: %v", err)
		case <-deadline:
			t.Fatalf("%d of %d messages came", got.count(), n)
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	must(t, <-done)
}

// operate gives all commands of operators.
func (v *victim) operate(cfg *outrider.Config) {
	t := v.t
	t.Helper()
	op, err := operate.NewOperator(t.Context(), cfg)
	must(t, err)
	defer func() { must(t, op.Close()) }()
	ctx := t.Context()
	_, err = op.Lag(ctx, "all")
	must(t, err)
	_, err = op.Instances(ctx)
	must(t, err)
	_, err = op.Retain(ctx, false, "test")
	must(t, err)
	for _, action := range []adapters.ParkedAction{adapters.ParkedRedrive, adapters.ParkedSkip} {
		_, err = op.CountParked(ctx, adapters.ParkedCommand{Action: action, All: true})
		must(t, err)
		_, err = op.ChangeParked(ctx, adapters.ParkedCommand{Action: action, All: true, By: "me"}, operate.RateLimit{})
		must(t, err)
	}
	_, err = op.Parked(ctx, adapters.ParkedFilter{})
	must(t, err)
	_, err = op.Pause(ctx, adapters.Pause{Route: "all", By: "me"})
	must(t, err)
	_, err = op.Pauses(ctx)
	must(t, err)
	for _, plan := range []func() (*operate.Relocation, error){
		func() (*operate.Relocation, error) {
			return op.PlanSeek(ctx, "all", operate.Target{Start: adapters.Start{Kind: adapters.StartBeginning}})
		},
		func() (*operate.Relocation, error) { return op.PlanRebase(ctx, "all", true) },
	} {
		r, err := plan()
		if err == nil {
			err = op.Relocate(ctx, r, "me")
		}
		if err != nil && strings.Contains(err.Error(), "caught") {
			t.Error(err)
		}
	}
	_, err = op.Resume(ctx, adapters.Pause{Route: "all", By: "me"})
	must(t, err)
	_, err = op.Forget(ctx, "all", true, "me")
	must(t, err)
	tail, cancel := context.WithCancel(ctx) // it never ends by itself
	defer cancel()
	if err := console.Tail(tail, cfg, "app", console.TailOptions{Begun: cancel}, func(*adapters.Row) error { return nil }); err != nil && strings.Contains(err.Error(), "caught") {
		t.Error(err)
	}
}
