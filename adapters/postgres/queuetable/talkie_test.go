package queuetable

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// A message that is there already is told by its id, in a transaction that goes on, on pgx and on database/sql; and rows of
// the client are those of the original.
func TestTalkieClientTellsDuplicates(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).preset(t, layout.Talkie())
	client, err := outbox.NewTalkie(outbox.TalkieConfig{Table: e.tables[0].Name})
	pgtest.Must(t, err)
	job := "6f7e0ffc-2b1f-4a73-9f5a-2d8b6f7f0c11"
	m := outbox.TalkieMessage{Topic: "jobs", Payload: []byte(`{"a": 1}`), JobID: job, IdempotencyKey: job}
	first := e.begin(t)
	id, err := client.Publish(e.ctx, first, m)
	pgtest.Must(t, err)
	if id != 1 {
		t.Errorf("the first id is %d", id)
	}
	pgtest.Must(t, first.Commit(e.ctx))
	talkieSystem.wantRow(t, e, "published", talkieSystem.fresh) // the key is the job's where none is given

	db, err := sql.Open("pgx", e.url)
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, db.Close()) })
	for name, begin := range map[string]func() (tx any, commit func() error){
		"pgx": func() (any, func() error) {
			tx := e.begin(t)
			return tx, func() error { return tx.Commit(e.ctx) }
		},
		"database/sql": func() (any, func() error) {
			tx, err := db.BeginTx(e.ctx, nil)
			pgtest.Must(t, err)
			return tx, tx.Commit
		},
	} {
		tx, commit := begin()
		for topic, want := range map[string]bool{"jobs": true, "of " + name: false} {
			again := m
			again.Topic = topic
			if id, err := client.Publish(e.ctx, tx, again); err != nil || (id == outbox.Duplicate) != want {
				t.Errorf("%s: topic %s: id %d, %v", name, topic, id, err)
			}
		}
		if id, err := client.Publish(e.ctx, tx, outbox.TalkieMessage{Topic: "jobs", Payload: []byte("1")}); err != nil || id == outbox.Duplicate {
			t.Errorf("%s: a message without a key of its own: id %d, %v", name, id, err)
		}
		pgtest.Must(t, commit())
		if _, err := client.Publish(e.ctx, tx, m); !errors.Is(err, outbox.ErrNoTransaction) {
			t.Errorf("%s: after the commit: %v", name, err)
		}
	}
	var n, without int
	pgtest.Must(t, e.pool.QueryRow(e.ctx, "SELECT count(*), count(*) FILTER (WHERE key IS NULL AND job_id IS NULL) FROM "+e.tables[0].Name).Scan(&n, &without))
	if n != 5 || without != 2 {
		t.Errorf("%d rows, %d without key and job, want 5 and 2", n, without)
	}
}

func TestTalkieClientRefuses(t *testing.T) {
	t.Parallel()
	client, err := outbox.NewTalkie(outbox.TalkieConfig{})
	pgtest.Must(t, err)
	if _, err := client.Publish(t.Context(), nil, outbox.TalkieMessage{}); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("without a transaction: %v", err)
	}
	e := newQueueEnv(t)
	for want, m := range map[string]outbox.TalkieMessage{
		"topic: is empty":     {Payload: []byte("{}")},
		"payload":             {Topic: "jobs", Payload: []byte("{")},
		"key: is not text":    {Topic: "jobs", Payload: []byte("{}"), Key: "a\x00"},
		"outbox":              {Topic: "jobs", Payload: []byte("{}")}, // the table does not exist
		"job id: is not text": {Topic: "jobs", Payload: []byte("{}"), JobID: "\xff"},
	} {
		err := pgx.BeginFunc(e.ctx, e.pool, func(tx pgx.Tx) error {
			_, err := client.Publish(e.ctx, tx, m)
			return err
		})
		pgtest.WantError(t, err, want)
	}
	if _, err := outbox.NewTalkie(outbox.TalkieConfig{Table: "a.b.c"}); err == nil {
		t.Error("a name of three parts is accepted")
	}
}
