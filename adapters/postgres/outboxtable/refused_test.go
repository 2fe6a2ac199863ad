package outboxtable_test

import (
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/internal/pgtx"
	"github.com/outriderhq/outrider/adapters/postgres/outboxtable"
	"github.com/outriderhq/outrider/outbox"
)

// A constraint and a trigger that wait for the COMMIT refuse the one row, not the transaction.
func TestADeferredConstraintRefusesOneRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE tenant (id text PRIMARY KEY); INSERT INTO tenant VALUES ('good');
		ALTER TABLE outrider_outbox ADD FOREIGN KEY (message_group) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED`)
	d := w.open(outboxtable.Config{Table: "outrider_outbox"})
	batch := []*message.Message{
		order("1", message.Metadata{outbox.MetaGroup: "good"}), order("2", message.Metadata{outbox.MetaGroup: "bad"}),
		order("3", message.Metadata{outbox.MetaGroup: "good"}),
	}
	errs := d.Deliver(t.Context(), "", batch)
	if len(errs) != 3 || errs[0] != nil || outbox.KindOf(errs[1]) != outbox.KindPermanent || errs[1] == nil || errs[2] != nil {
		t.Errorf("got %v, want the second one refused", errs)
	}
	if n := len(w.rows("outrider_outbox", "position")); n != 2 {
		t.Errorf("%d rows were written, want 2", n)
	}
}

// Row security refuses a row; a right that is missing concerns all of them.
func TestRowSecurityRefusesTheRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE secured (id text); ALTER TABLE secured ENABLE ROW LEVEL SECURITY; ALTER TABLE secured FORCE ROW LEVEL SECURITY;
		CREATE POLICY p ON secured USING (true) WITH CHECK (id <> 'bad'); GRANT INSERT ON secured TO pg_database_owner, pg_monitor; CREATE TABLE closed (id text)`)
	for table, kind := range map[string]outbox.Kind{"secured": outbox.KindPermanent, "closed": outbox.KindUnavailable} {
		err := pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE pg_monitor"); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), fmt.Sprintf("INSERT INTO %s VALUES ('bad')", table))
			return err
		})
		if got := pgtx.Classify(err, pgtx.Fixes{}); err == nil || outbox.KindOf(got) != kind {
			t.Errorf("%s: %v is %v, want %v", table, got, outbox.KindOf(got), kind)
		}
	}
}

// A trigger that looks for one row and finds two fails on one message, not on the table.
func TestATriggerThatMeetsTwoRowsRefusesTheRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE tenant (id text); INSERT INTO tenant VALUES ('good'), ('bad'), ('bad');
		CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM (SELECT id FROM public.tenant WHERE id = NEW.message_group); RETURN NEW; END $$;
		CREATE TRIGGER look BEFORE INSERT ON outrider_outbox FOR EACH ROW EXECUTE FUNCTION look()`)
	d := w.open(outboxtable.Config{Table: "outrider_outbox"})
	batch := []*message.Message{
		order("1", message.Metadata{outbox.MetaGroup: "good"}), order("2", message.Metadata{outbox.MetaGroup: "bad"}),
		order("3", message.Metadata{outbox.MetaGroup: "good"}),
	}
	errs := d.Deliver(t.Context(), "", batch)
	if len(errs) != 3 || errs[0] != nil || errs[1] == nil || outbox.KindOf(errs[1]) != outbox.KindTransient || errs[2] != nil {
		t.Errorf("got %v, want an attempt of the second one to fail", errs)
	}
}
