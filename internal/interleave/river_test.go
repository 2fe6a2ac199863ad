package interleave_test

import (
	"context"
	"errors"
	"testing"

	watermill "github.com/ThreeDotsLabs/watermill/message"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	pgdb "github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/river"
	"github.com/outriderhq/outrider/outbox"
)

// riverScenarios insert jobs in the transaction that settles. River's COPY is a step.
var riverScenarios = only(logScenarios, "exactly once", "exactly once over a lost connection", "skip beside a delivery in a transaction")

// riverMutants are changes of the statements around it.
var riverMutants = []*mutant{
	alsoBy(logMutants, "settle: any epoch", "exactly once"),
	alsoBy(logMutants, "deliver: what a lost commit has written is not found", "exactly once over a lost connection"),
}

// riverDatabase has River's tables; sink shows their jobs.
func riverDatabase(t *testing.T) string {
	t.Helper()
	url := logDatabase(t)
	pool := pooled(t, url)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	must(t, err)
	_, err = migrator.Migrate(context.Background(), rivermigrate.DirectionUp, nil)
	must(t, err)
	_, err = pool.Exec(context.Background(), `DROP TABLE sink; CREATE VIEW sink AS SELECT metadata->'outrider'->>'event_id' AS id FROM river_job`)
	must(t, err)
	return url
}

// riverWorld has relays that insert jobs.
func riverWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	w := logWorld(t, url, m)
	for _, name := range []string{relayA, relayB, drainer} {
		pool, err := pgdb.Open(w.ctx, w.session(name).url, pgdb.TLS{})
		must(t, err)
		d, err := river.New(river.Config{Pool: pool})
		must(t, err)
		w.closers = append(w.closers, d.Close)
		w.relays[name].deliverTx = func(ctx context.Context, tx any, ids ...string) error {
			_, errs := d.DeliverTx(ctx, tx, "", messages(ids))
			return errors.Join(errs...)
		}
	}
	return w
}

// messages are those of some rows.
func messages(ids []string) (out []*watermill.Message) {
	for _, id := range ids {
		msg := watermill.NewMessage(id, []byte("{}"))
		msg.Metadata = watermill.Metadata{outbox.MetaType: "t", outbox.MetaGroup: group}
		out = append(out, msg)
	}
	return out
}
