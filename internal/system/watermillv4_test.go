package system_test

import (
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"testing"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/wmsqlv4"
)

// Publishers of watermill-sql v4 on transactions of pgx write a topic of DefaultPostgreSQLSchema and Outrider's own table: routes
// deliver what was committed, in order for each group, and nothing of a transaction that was rolled back.
func TestG1_G2_PublishersOfWatermillSQLv4(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	pool, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(pool.Close)
	queries, err := wmsql.DefaultPostgreSQLSchema{}.SchemaInitializingQueries(wmsql.SchemaInitializingQueriesParams{Topic: "orders"})
	must(t, err)
	for _, q := range queries {
		_, err := pool.Exec(t.Context(), q.Query)
		must(t, err)
	}
	_, err = pool.Exec(t.Context(), `CREATE UNIQUE INDEX ON watermill_orders ("offset")`) // as docs/migrate/watermill.md says
	must(t, err)
	cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `
admin: {listen: "off"}
sources:
  topic: {type: postgres, url: %[1]q, layout: watermill, topic: orders, metadata: {group: customer}}
  own: {type: postgres, url: %[1]q}
destinations: {topic: {type: publisher, topic: t}, own: {type: publisher, topic: t}}
routes: {topic: {from: topic, to: topic}, own: {from: own, to: own}}
`, url))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	adapters := map[string]wmsql.SchemaAdapter{"topic": wmsql.DefaultPostgreSQLSchema{}, "own": wmsqlv4.Schema{}}
	const rounds, each = 9, 20 // the first of three rounds is rolled back
	for round := range rounds {
		for name, schema := range adapters {
			tx, err := pool.Begin(t.Context())
			must(t, err)
			pub, err := wmsql.NewPublisher(wmsql.TxFromPgx(tx), wmsql.PublisherConfig{SchemaAdapter: schema}, nil)
			must(t, err)
			var msgs []*message.Message
			for i := range each {
				group := "g" + strconv.Itoa(i%3)
				msg := message.NewMessage(fmt.Sprintf("%s-%d", name, round*each+i), fmt.Appendf(nil, `{"n": %d, "group": %q}`, round*each+i, group))
				msg.Metadata = message.Metadata{outbox.MetaGroup: group, "customer": group}
				msgs = append(msgs, msg)
			}
			must(t, pub.Publish("orders", msgs...))
			end := pgx.Tx.Commit
			if round%3 == 0 {
				end = pgx.Tx.Rollback
			}
			must(t, end(tx, t.Context()))
		}
	}
	got := map[string]*gate{"topic": newGate(), "own": newGate()}
	stop := relay(t, cfg, outrider.WithDestination("topic", got["topic"]), outrider.WithDestination("own", got["own"]))
	want := map[string][]int{}
	for n := range rounds * each {
		if group := "g" + strconv.Itoa(n%each%3); n/each%3 != 0 {
			want[group] = append(want[group], n)
		}
	}
	for name, g := range got {
		eventually(t, "all of "+name, func() bool { return g.of("g0", "g1", "g2") >= rounds*each*2/3 })
	}
	stop()
	for name, g := range got {
		if !reflect.DeepEqual(g.got, want) {
			t.Errorf("%s: %v, want %v", name, g.got, want)
		}
	}
}
