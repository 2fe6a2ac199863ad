package router

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/outbox"
)

// stopAtCommit makes transactions that give a row a status wait at their commit,
// until the returned function is called.
func (f *flowcatalyst) stopAtCommit(status string) (goOn func()) {
	f.t.Helper()
	f.exec(fmt.Sprintf(`CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.status = '%s' THEN
				PERFORM set_config('lock_timeout', '0', true);
				PERFORM pg_advisory_xact_lock_shared(7);
			END IF;
			RETURN NULL;
		END $$;
		CREATE CONSTRAINT TRIGGER stop AFTER UPDATE ON outbox_events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stop();
		SELECT pg_advisory_lock(7)`, status))
	return func() { f.exec("SELECT pg_advisory_unlock(7)") }
}

// stopped reports whether a transaction waits at its commit.
func (f *flowcatalyst) stopped() (is bool) {
	f.t.Helper()
	err := f.conn.QueryRow(f.t.Context(), `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = 7 AND NOT l.granted)`).Scan(&is)
	if err != nil {
		f.t.Fatal(err)
	}
	return is
}

// The server commits a claim or a settle, its answer is swallowed, and the
// connection is reset. The outcome is found out: what was settled is not lost, nothing comes
// twice or is charged twice, what was claimed does not stand still for claims.timeout, and
// the log says what happened and blames nobody.
func TestG1_G3_G13_TheAnswerToACommitIsLost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		rows     int
		status   string // that the statement writes
		written  string // what its rows look like
		fail     error  // of each first attempt
		attempts int    // that the table counts at the end, of each row
		end      string
		log      string
	}{
		{"a claim of few", 20, "PROCESSING", "status = 'PROCESSING'", nil, 0, "COMPLETED", "a claim had been committed"},
		{"a claim of many", 400, "PROCESSING", "status = 'PROCESSING'", nil, 0, "COMPLETED", "a claim had been committed"},
		{"delivered", 20, "COMPLETED", "status = 'COMPLETED'", nil, 0, "COMPLETED", "results had been written"},
		{"dead", 20, "FAILED", "status = 'FAILED'", outbox.Permanent(errors.New("refused")), 0, "FAILED", "results had been written"},
		{"to be tried again", 1, "PENDING", "status = 'PENDING' AND retry_count = 1", errors.New("status 500"), 1, "COMPLETED", "results had been written"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFlowcatalyst(t)
			w, through := newWire(t, f.url, 0)
			log := &journal{}
			f.through, f.log = through, slog.NewTextHandler(log, nil)
			var mu sync.Mutex
			failed := map[string]bool{}
			f.dest.setFail(func(_ string, msg *message.Message) error {
				mu.Lock()
				defer mu.Unlock()
				if tt.fail == nil || failed[msg.UUID] {
					return nil
				}
				failed[msg.UUID] = true
				return tt.fail
			})
			goOn := f.stopAtCommit(tt.status)
			f.insert("outbox_events", "e", 1000, 0, tt.rows)
			stop := f.startWith(postgres.WakePoll, Poll{Batch: 500, Min: 20 * time.Millisecond, Max: 20 * time.Millisecond})
			until(t, "a transaction waits at its commit", f.stopped)
			w.swallowing.Store(true)
			goOn()
			until(t, "it is committed", func() bool { return f.count(tt.written) > 0 })
			w.cut()
			w.swallowing.Store(false)
			f.await(fmt.Sprintf("status = '%s' AND retry_count = %d", tt.end, tt.attempts), tt.rows)
			until(t, "the log says what happened", func() bool { return log.count(tt.log) > 0 })
			stop()
			if tt.end == "COMPLETED" {
				f.checkOrdered(tt.rows)
			}
			for _, blame := range []string{"somebody", "no longer claimed", "too long"} {
				if n := log.count(blame); n > 0 {
					t.Errorf("the log says %d times that rows were %q", n, blame)
				}
			}
		})
	}
}
