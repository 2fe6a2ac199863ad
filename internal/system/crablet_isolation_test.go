package system_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Outrider uses READ COMMITTED, as Crablet does, whatever the database's default is: at another level a concurrent change of a row by an
// operator or by Crablet would fail the settle.
func TestG1_CrabletsPairsUnderAnotherDefaultIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			c := newCrablet(t, "KafkaPublisher", "Webhook")
			c.exec(fmt.Sprintf(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET default_transaction_isolation = %s', current_database()); END $$`, quoted(level)))
			c.pool.Reset()
			var now string
			must(t, c.pool.QueryRow(t.Context(), "SHOW default_transaction_isolation").Scan(&now))
			if now != level {
				t.Fatalf("the default is %s", now)
			}
			stop := c.run("one")
			editing, end := context.WithCancel(t.Context())
			defer end()
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for editing.Err() == nil { // what fails here at such a level is the operator's statement
						_, _ = c.pool.Exec(editing, `UPDATE outbox_topic_progress SET updated_at = CURRENT_TIMESTAMP`)
					}
				})
			}
			last := int64(0)
			for range 100 {
				last = c.add(2)
			}
			for _, name := range []string{"KafkaPublisher", "Webhook"} {
				eventually(t, name+" gets all events", func() bool { return len(c.in[name].all()) >= int(last) })
			}
			end()
			wg.Wait()
			for _, name := range []string{"KafkaPublisher", "Webhook"} {
				c.reaches(name, last)
				if got := c.in[name].all(); !slices.Equal(got, c.ids(1, last)) {
					t.Errorf("%s got %d events in another order, want %d", name, len(got), last)
				}
			}
			stop()
			if text := c.log.all(); strings.Contains(text, "could not serialize") {
				t.Errorf("statements failed:\n%s", text)
			}
		})
	}
}

// quoted is a text as an SQL literal, inside of another one.
func quoted(text string) string { return "''" + text + "''" }
