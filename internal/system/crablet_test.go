package system_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// crabletDDL is Crablet's own, with the indexes that its outbox reads by.
const crabletDDL = `
CREATE TABLE events (
    type VARCHAR(64) NOT NULL, tags TEXT[] NOT NULL, data JSON NOT NULL, transaction_id xid8 NOT NULL,
    position BIGSERIAL NOT NULL PRIMARY KEY, occurred_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT chk_event_type_length CHECK (LENGTH(type) <= 64));
CREATE INDEX idx_events_transaction_position_btree ON events (transaction_id, position);
CREATE INDEX idx_events_tags ON events USING GIN (tags);
CREATE TABLE outbox_topic_progress (
    topic VARCHAR(100) NOT NULL, publisher VARCHAR(100) NOT NULL, last_position BIGINT NOT NULL DEFAULT 0, last_published_at TIMESTAMPTZ,
    status VARCHAR(20) NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'FAILED')), error_count INT NOT NULL DEFAULT 0, last_error TEXT,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP, leader_instance VARCHAR(255), leader_since TIMESTAMPTZ, leader_heartbeat TIMESTAMPTZ,
    PRIMARY KEY (topic, publisher));`

// appendSQL appends as Crablet's append functions do.
const appendSQL = `INSERT INTO events (type, tags, data, transaction_id) VALUES ('Moved', $1, $2, pg_current_xact_id()) RETURNING position`

// crabletV2DDL is that of newer versions, and appendV2SQL appends as their functions do: the second table has the tags once more.
const (
	crabletV2DDL = `
CREATE TABLE crablet_events (
    type TEXT NOT NULL, tags TEXT[] NOT NULL, data JSONB NOT NULL, transaction_id xid8 NOT NULL,
    position BIGSERIAL NOT NULL PRIMARY KEY, occurred_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT CURRENT_TIMESTAMP, correlation_id UUID, causation_id BIGINT);
CREATE TABLE crablet_event_tags (position BIGINT NOT NULL REFERENCES crablet_events ON DELETE CASCADE, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (key, value, position));
CREATE INDEX ON crablet_events (transaction_id, position);
CREATE TABLE crablet_outbox_topic_progress (
    topic TEXT NOT NULL, publisher TEXT NOT NULL, last_position BIGINT NOT NULL DEFAULT 0, last_published_at TIMESTAMPTZ,
    status TEXT NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'PAUSED', 'FAILED')), error_count INT NOT NULL DEFAULT 0, last_error TEXT,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP, leader_instance TEXT, leader_since TIMESTAMPTZ, leader_heartbeat TIMESTAMPTZ,
    PRIMARY KEY (topic, publisher));`

	appendV2SQL = `WITH appended AS (
    INSERT INTO crablet_events (type, tags, data, transaction_id) VALUES ('Moved', $1, $2, pg_current_xact_id()) RETURNING position, tags
), tagged AS (
    INSERT INTO crablet_event_tags SELECT DISTINCT a.position, split_part(tag, '=', 1), split_part(tag, '=', 2) FROM appended a, unnest(a.tags) tag
)
SELECT position FROM appended`
)

// version is a version of Crablet.
type version struct {
	layout, ddl, append   string
	events, progressTable string // the tables
}

// The versions by their layouts.
var (
	crabletV1 = version{"crablet", crabletDDL, appendSQL, "events", "outbox_topic_progress"}
	crabletV2 = version{"crablet-v2", crabletV2DDL, appendV2SQL, "crablet_events", "crablet_outbox_topic_progress"}
)

// ofEachVersion runs a test with the tables of each version.
func ofEachVersion(t *testing.T, test func(t *testing.T, v version)) {
	t.Helper()
	for _, v := range []version{crabletV1, crabletV2} {
		t.Run(v.layout, func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// crablet is a database of Crablet's, and what its publishers got.
type crablet struct {
	*testing.T
	version
	url  string
	pool *pgxpool.Pool
	in   map[string]*pairInbox // by publisher
	log  logged
	cfg  string // routes and more
}

func newCrablet(t *testing.T, publishers ...string) *crablet {
	t.Helper()
	return newCrabletOf(t, crabletV1, publishers...)
}

func newCrabletOf(t *testing.T, v version, publishers ...string) *crablet {
	t.Helper()
	c := &crablet{T: t, version: v, url: testenv.Postgres(t), in: map[string]*pairInbox{}}
	var err error
	c.pool, err = pgxpool.New(t.Context(), c.url)
	must(t, err)
	t.Cleanup(c.pool.Close)
	c.exec(v.ddl)
	var routes, destinations strings.Builder
	for _, name := range publishers {
		c.in[name] = &pairInbox{refused: map[string]error{}}
		fmt.Fprintf(&destinations, "  %s: {type: publisher, topic: there}\n", strings.ToLower(name))
		fmt.Fprintf(&routes, "  %s:\n    from: events\n    to: %s\n    progress: {topic: Wallet Events, publisher: %s}\n", strings.ToLower(name), strings.ToLower(name), name)
	}
	c.cfg = "destinations:\n" + destinations.String() + "routes:\n" + routes.String()
	return c
}

func (c *crablet) exec(sql string, args ...any) {
	c.Helper()
	_, err := c.pool.Exec(c.Context(), sql, args...)
	must(c.T, err)
}

// add appends events, each in a transaction of its own, and returns the last position.
func (c *crablet) add(n int, tags ...string) (last int64) {
	c.Helper()
	for range n {
		must(c.T, c.pool.QueryRow(c.Context(), c.append, append([]string{"wallet_id=1"}, tags...), `{"a":1}`).Scan(&last))
	}
	return last
}

// run runs a relay until stop is called.
func (c *crablet) run(instance string) (stop func()) {
	c.Helper()
	// The lease is long: on a busy machine a lane that is lost for a moment gets events twice.
	text := fmt.Sprintf("lease: 20s\nsources:\n  events: {type: postgres, url: %q, layout: %s, poll: {max: 20ms}}\n%s", c.url, c.layout, c.cfg)
	cfg, err := outrider.ParseConfig("test", []byte(text))
	must(c.T, err)
	options := []outrider.Option{outrider.WithLogger(slog.New(slog.NewTextHandler(&c.log, nil))), outrider.WithInstance(instance)}
	for name, in := range c.in {
		options = append(options, outrider.WithBatchDestination(strings.ToLower(name), in))
	}
	o, err := outrider.New(cfg, options...)
	must(c.T, err)
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.Error(err)
		}
		if c.Failed() {
			c.Log(c.log.all())
		}
	})
	c.Cleanup(stop)
	return stop
}

// progressRow is a row of outbox_topic_progress.
type progressRow struct {
	Position int64
	Status   string
	Errors   int
	Error    string
	Leader   string
	Sent     bool

	Updated, Since, Heartbeat time.Time // when it was written, and those of the leader; zero: NULL
}

func (c *crablet) progress(publisher string) (p progressRow) {
	c.Helper()
	err := c.pool.QueryRow(c.Context(), `SELECT last_position, status, error_count, coalesce(last_error, ''), coalesce(leader_instance, ''), last_published_at IS NOT NULL,
    updated_at, coalesce(leader_since, '0001-01-01Z'), coalesce(leader_heartbeat, '0001-01-01Z')
FROM `+c.progressTable+` WHERE topic = 'Wallet Events' AND publisher = $1`, publisher).Scan(&p.Position, &p.Status, &p.Errors, &p.Error, &p.Leader, &p.Sent,
		&p.Updated, &p.Since, &p.Heartbeat)
	if !errors.Is(err, pgx.ErrNoRows) {
		must(c.T, err)
	}
	return p
}

// now is the time of the server.
func (c *crablet) now() (at time.Time) {
	c.Helper()
	must(c.T, c.pool.QueryRow(c.Context(), "SELECT clock_timestamp()").Scan(&at))
	return at
}

// set changes the row of KafkaPublisher as operators of Crablet do.
func (c *crablet) set(what string) {
	c.Helper()
	c.exec(`UPDATE ` + c.progressTable + ` SET ` + what + ` WHERE publisher = 'KafkaPublisher'`)
}

// comes waits until a publisher's row is as wanted.
func (c *crablet) comes(publisher, what string, is func(progressRow) bool) {
	c.Helper()
	eventually(c.T, fmt.Sprintf("the row of %s: %s", publisher, what), func() bool { return is(c.progress(publisher)) })
}

// reaches waits until everything up to a position is delivered, as the row has it.
func (c *crablet) reaches(publisher string, position int64) {
	c.Helper()
	c.comes(publisher, fmt.Sprint("is at ", position), func(p progressRow) bool { return p.Position == position && p.Status == "ACTIVE" })
}

// pairInbox is a publisher that takes or refuses a batch as a whole.
type pairInbox struct {
	mu      sync.Mutex
	got     []string // ids, in order
	largest int
	refused map[string]error // by id
	before  func(ids []string)
}

func (in *pairInbox) Address(*message.Message) (string, error) { return "there", nil }
func (in *pairInbox) Close() error                             { return nil }
func (in *pairInbox) Ordering() adapters.Ordering {
	return adapters.Ordering{MaxMessages: 100, Static: true, Whole: true}
}

func (in *pairInbox) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	in.mu.Lock()
	defer in.mu.Unlock()
	ids := make([]string, len(batch))
	for i, msg := range batch {
		ids[i] = msg.UUID
	}
	if in.before != nil {
		in.before(ids)
	}
	in.largest = max(in.largest, len(batch))
	for _, id := range ids {
		if err := in.refused[id]; err != nil {
			errs := make([]error, len(batch))
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	in.got = append(in.got, ids...)
	return nil
}

func (in *pairInbox) all() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.got)
}

func (in *pairInbox) refuse(id string, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refused[id] = err; err == nil {
		delete(in.refused, id)
	}
}

// ids returns the ids of the events at positions.
func (v version) ids(from, to int64) (out []string) {
	for p := from; p <= to; p++ {
		out = append(out, fmt.Sprint(v.events, ":", p))
	}
	return out
}

// A pair is registered on first sight, gets all events in global order and in batches, and its row shows how far it is.
func TestG1_G2_CrabletsPairsKeepTheirProgress(t *testing.T) {
	t.Parallel()
	ofEachVersion(t, pairsKeepTheirProgress)
}

func pairsKeepTheirProgress(t *testing.T, v version) {
	c := newCrabletOf(t, v, "KafkaPublisher", "Webhook")
	c.cfg = strings.Replace(c.cfg, "    to: webhook\n", "    to: webhook\n    match: {tags: {all: [wallet_id, region=eu]}}\n    poll: {min: 20ms, max: 50ms}\n", 1)
	last := c.add(250, "wallet_id=2", "region=eu")
	before := c.now()
	stop := c.run("one")
	for _, name := range []string{"KafkaPublisher", "Webhook"} {
		c.reaches(name, last)
		if got := c.in[name].all(); !slices.Equal(got, c.ids(1, last)) {
			t.Errorf("%s got %v", name, got)
		}
		if p := c.progress(name); !p.Sent || p.Leader != "one" || p.Errors != 0 || p.Updated.Before(before) || p.Since.Before(before) || p.Heartbeat.Before(p.Since) {
			t.Errorf("the row of %s: %+v", name, p)
		}
		if n := c.in[name].largest; n < 2 || n > 100 {
			t.Errorf("%s got batches of up to %d, want more than one message and at most 100", name, n)
		}
	}
	last = c.add(3, "region=us")
	c.reaches("KafkaPublisher", last)
	c.reaches("Webhook", last) // it does not match them, and is beyond them
	if n := len(c.in["Webhook"].all()); n != 250 {
		t.Errorf("the webhook got %d events, want those with its tags only", n)
	}
	stop()
	before = c.now()
	c.add(1)
	defer c.run("two")()
	c.reaches("KafkaPublisher", last+1)
	if p := c.progress("KafkaPublisher"); p.Leader != "two" || !p.Since.After(before) {
		t.Errorf("the row of another leader: %+v", p)
	}
	if got := c.in["KafkaPublisher"].all(); !slices.Equal(got, c.ids(1, last+1)) {
		t.Errorf("after a restart there are %d events, want %d", len(got), last+1)
	}
}

// The route begins at the position of an existing row. An event that commits late below it is delivered: Crablet, which reads above
// last_position, never delivers it.
func TestG1_CrabletsLastPositionIsTakenOver(t *testing.T) {
	t.Parallel()
	ofEachVersion(t, lastPositionIsTakenOver)
}

func lastPositionIsTakenOver(t *testing.T, v version) {
	c := newCrabletOf(t, v, "KafkaPublisher")
	c.add(5)
	late, err := c.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = late.Rollback(context.WithoutCancel(t.Context())) }() // nothing after the commit
	var position int64
	must(t, late.QueryRow(t.Context(), c.append, []string{"wallet_id=1"}, `{"late":true}`).Scan(&position))
	c.add(4) // 7 to 10
	c.exec(`INSERT INTO ` + v.progressTable + ` (topic, publisher, last_position) VALUES ('Wallet Events', 'KafkaPublisher', 8)`)
	stop := c.run("one")
	c.reaches("KafkaPublisher", 10)
	must(t, late.Commit(t.Context()))
	eventually(t, "the late event arrives", func() bool { return len(c.in["KafkaPublisher"].all()) == 3 })
	stop()
	if got, want := c.in["KafkaPublisher"].all(), append(c.ids(9, 10), c.ids(position, position)...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var lost int64
	must(t, c.pool.QueryRow(t.Context(), `SELECT count(*) FROM `+v.events+` e, `+v.progressTable+` p WHERE e.position = $1 AND e.position > p.last_position`, position).Scan(&lost))
	if lost != 0 {
		t.Error("the original would find the late event, too, so the test shows nothing")
	}
	// Crablet continues while Outrider waits for the lock: Outrider continues at its position.
	c.add(5)
	c.set("last_position = 12")
	defer c.run("two")()
	c.reaches("KafkaPublisher", 15)
	if got := c.in["KafkaPublisher"].all()[3:]; !slices.Equal(got, c.ids(13, 15)) {
		t.Errorf("after the original's turn it got %v, want 13 to 15", got)
	}
}

// PAUSED stops the pair, ACTIVE resumes it, another last_position moves it exactly there, and other pairs go on.
func TestG8_CrabletsRowsAreManagedBySQL(t *testing.T) {
	t.Parallel()
	c := newCrablet(t, "KafkaPublisher", "Webhook")
	last := c.add(20)
	defer c.run("one")()
	kafka, webhook := c.in["KafkaPublisher"], c.in["Webhook"]
	c.reaches("KafkaPublisher", last)
	c.set("status = 'PAUSED'")
	eventually(t, "the route is paused", func() bool { return c.log.count("the route stays paused") == 1 })
	last = c.add(5)
	c.reaches("Webhook", last)
	if n := len(kafka.all()); n != 20 {
		t.Errorf("a paused pair has got %d events, want 20", n)
	}
	c.set("last_position = 10, status = 'ACTIVE'")
	c.reaches("KafkaPublisher", last)
	if got, want := kafka.all()[20:], c.ids(11, 25); !slices.Equal(got, want) {
		t.Errorf("from 10 on it got %v, want %v", got, want)
	}
	c.set("last_position = 22")
	eventually(t, "a running pair goes back", func() bool { return len(kafka.all()) >= 20+15+3 })
	c.reaches("KafkaPublisher", last)
	if got, want := kafka.all()[35:], c.ids(23, 25); !slices.Equal(got, want) {
		t.Errorf("from 22 on it got %v, want %v", got, want)
	}
	if got := webhook.all(); !slices.Equal(got, c.ids(1, 25)) {
		t.Errorf("the other pair got %v", got)
	}
}

// A pair that was PAUSED or FAILED before Outrider came stays so until an operator resumes it.
func TestG8_CrabletsStatusIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"PAUSED", "FAILED"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			c := newCrablet(t, "KafkaPublisher", "Webhook")
			last := c.add(5)
			c.exec(`INSERT INTO outbox_topic_progress (topic, publisher, last_position, status, error_count, last_error)
VALUES ('Wallet Events', 'KafkaPublisher', 2, $1, 3, 'Publish failed')`, status)
			defer c.run("one")()
			c.reaches("Webhook", last)
			eventually(t, "the route is paused", func() bool {
				return c.log.count("the route is paused; to resume it")+c.log.count("the route stays paused") > 0
			})
			if p, got := c.progress("KafkaPublisher"), c.in["KafkaPublisher"].all(); p.Status != status || p.Position != 2 || p.Errors != 3 || p.Error != "Publish failed" || len(got) > 0 {
				t.Errorf("the row is %+v, and %v were delivered", p, got)
			}
			c.set("status = 'ACTIVE', error_count = 0, last_error = NULL")
			c.reaches("KafkaPublisher", last)
			if got := c.in["KafkaPublisher"].all(); !slices.Equal(got, c.ids(3, last)) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// An event that fails three times fails its pair and no other; a reset tries it again, and a position behind it skips it.
func TestG8_ACrabletPairFailsAndIsReset(t *testing.T) {
	t.Parallel()
	c := newCrablet(t, "KafkaPublisher", "Webhook")
	kafka := c.in["KafkaPublisher"]
	kafka.refuse("events:3", errors.New("broker says no"))
	last := c.add(6)
	stop := c.run("one")
	c.reaches("Webhook", last)
	failed := func(p progressRow) bool { return p.Status == "FAILED" }
	c.comes("KafkaPublisher", "has failed", failed)
	if p := c.progress("KafkaPublisher"); p.Errors != 3 || !strings.Contains(p.Error, "broker says no") || p.Position > 2 {
		t.Errorf("the row of the failed pair: %+v", p)
	}
	last = c.add(1)
	c.reaches("Webhook", last) // events while the pair is paused
	kafka.refuse("events:3", nil)
	c.set("status = 'ACTIVE', error_count = 0, last_error = NULL")
	c.reaches("KafkaPublisher", last)
	if got := kafka.all(); !slices.Equal(got, c.ids(1, last)) {
		t.Errorf("after the reset it got %v", got)
	}
	kafka.refuse("events:8", errors.New("broker says no"))
	last = c.add(4)
	c.comes("KafkaPublisher", "has failed again", failed)
	c.set("status = 'ACTIVE', last_position = 8")
	c.reaches("KafkaPublisher", last)
	stop()
	if got := kafka.all(); !slices.Contains(got, "events:9") || slices.Contains(got, "events:8") {
		t.Errorf("after a skip it got %v", got)
	}
	var parked int
	must(t, c.pool.QueryRow(t.Context(), `SELECT count(*) FROM outrider_parked`).Scan(&parked))
	if parked != 0 {
		t.Errorf("%d messages are left in the parking", parked)
	}
}

// The row of a pair that cannot be reached counts no attempts, and the row is not ahead of what was delivered.
func TestG1_CrabletsRowIsNeverAhead(t *testing.T) {
	t.Parallel()
	c := newCrablet(t, "KafkaPublisher")
	kafka := c.in["KafkaPublisher"]
	ahead := int64(0)
	kafka.before = func(ids []string) {
		var first int64
		_, err := fmt.Sscanf(ids[0], "events:%d", &first)
		if p := c.progress("KafkaPublisher"); err != nil || p.Position >= first {
			ahead = p.Position
		}
	}
	c.cfg = strings.Replace(c.cfg, "    to: kafkapublisher\n", "    to: kafkapublisher\n    match: {tags: {all: [region=eu]}}\n", 1)
	kafka.refuse("events:40", outbox.Unavailable(errors.New("away"), 0))
	c.add(30, "region=eu")
	stop := c.run("one")
	c.reaches("KafkaPublisher", 30)
	c.add(15, "region=eu")
	last := c.add(75)
	eventually(t, "the address is down", func() bool { return c.log.count("address is down") > 0 })
	eventually(t, "slots without an event that waits are at the end", func() (there bool) { // and the row is written with them
		must(t, c.pool.QueryRow(t.Context(), `SELECT max(position) >= $1 FROM outrider_cursor`, last).Scan(&there))
		return there
	})
	if p := c.progress("KafkaPublisher"); p.Status != "ACTIVE" || p.Errors != 0 || p.Position >= 40 {
		t.Errorf("while it cannot be reached: %+v", p)
	}
	kafka.refuse("events:40", nil)
	c.reaches("KafkaPublisher", last)
	stop()
	if ahead != 0 {
		t.Errorf("the row was at %d before that was delivered", ahead)
	}
}
