package seeds

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/compat/flowcatalyst"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
)

// The tables of chapter 8 of FlowCatalyst's document, for PostgreSQL and MySQL.
const flowCatalystTables = `
CREATE TABLE outbox_events (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP,
    error_message TEXT
);

CREATE INDEX idx_outbox_events_status
    ON outbox_events(status, message_group, created_at);

CREATE TABLE outbox_dispatch_jobs (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP,
    error_message TEXT
);

CREATE INDEX idx_outbox_dispatch_jobs_status
    ON outbox_dispatch_jobs(status, message_group, created_at);`

// flowCatalystRelay runs with all keys of chapter 7, which `outrider import` reads. The interval is shorter, and what the result asks for is given.
func flowCatalystRelay(t *testing.T, database, url string, a *api) {
	t.Helper()
	r, err := flowcatalyst.Import("application.properties", fmt.Appendf(nil, `
outbox-processor.enabled=true
outbox-processor.poll-interval=PT0.01S
outbox-processor.poll-batch-size=500
outbox-processor.api-batch-size=100
outbox-processor.max-concurrent-groups=10
outbox-processor.global-buffer-size=1000
outbox-processor.database-type=%s
outbox-processor.events-table=outbox_events
outbox-processor.dispatch-jobs-table=outbox_dispatch_jobs
outbox-processor.api-base-url=%s
outbox-processor.api-token=${API_TOKEN}
outbox-processor.max-retries=3
outbox-processor.processing-timeout-seconds=300
outbox-processor.mongo-database=outbox
`, database, a.URL), flowcatalyst.Options{})
	must(t, err)
	text := strings.NewReplacer("${DATABASE_URL}", url, "${MONGODB_URL}", url, "${API_TOKEN}", "secret", "${STATE_URL}", filepath.Join(t.TempDir(), "state.db")).Replace(string(r.Config))
	cfg, err := outrider.ParseConfig("test", []byte("admin: {listen: off}\n"+text))
	must(t, err)
	if m, ok := cfg.Sources["app"].(*config.MongoDB); ok {
		m.Database = ""
	}
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	run(t, cfg)
}

// The document's tables, its claim, and its rows on PostgreSQL and MySQL: what others have claimed stays, the payloads of a group go as one array
// to the path of their type, and what fails four times is FAILED.
func TestFlowCatalystTablesOfTheDocument(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]func(testing.TB, string) *database{"POSTGRESQL": onPostgres, "MYSQL": onMySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, a := on(t, flowCatalystTables), newAPI(t)
			a.refuses = "poison"
			insert := func(table, id, typ, group, payload string) {
				d.exec(fmt.Sprintf(`INSERT INTO %s (id, type, message_group, payload, status, created_at) VALUES ('%s', '%s', '%s', '%s', 'PENDING', CURRENT_TIMESTAMP)`,
					table, id, typ, group, payload))
			}
			insert("outbox_events", "0HZXEQ5Y8JY50", "EVENT", "order-0", `{"n":0}`)
			if name == "POSTGRESQL" {
				d.exec(`WITH selected AS (
    SELECT id FROM outbox_events
    WHERE status = 'PENDING'
    ORDER BY message_group, created_at
    LIMIT 500
    FOR UPDATE SKIP LOCKED
)
UPDATE outbox_events t
SET status = 'PROCESSING', processed_at = NOW()
FROM selected s
WHERE t.id = s.id
RETURNING t.*`)
			} else {
				d.exec(`SELECT id FROM outbox_events WHERE status='PENDING' LIMIT 500 FOR UPDATE SKIP LOCKED`)
				d.exec(`UPDATE outbox_events SET status='PROCESSING', processed_at=NOW() WHERE id IN ('0HZXEQ5Y8JY50')`)
			}
			insert("outbox_events", "0HZXEQ5Y8JY51", "EVENT", "order-123", `{"id": "0HZXEQ5Y8JY5Z", "type": "order.created"}`)
			insert("outbox_events", "0HZXEQ5Y8JY52", "EVENT", "order-123", `{"n": 2}`)
			insert("outbox_events", "0HZXEQ5Y8JY53", "EVENT", "order-456", `{"poison": 1}`)
			insert("outbox_dispatch_jobs", "0HZXEQ5Y8JY54", "DISPATCH_JOB", "customer-789", `{"n": 4}`)
			flowCatalystRelay(t, name, d.url, a)
			eventually(t, "the outcomes", func() bool {
				return d.text(`SELECT count(*) FROM outbox_events WHERE status = 'COMPLETED' AND processed_at IS NOT NULL`) == "2" &&
					d.text(`SELECT count(*) FROM outbox_events WHERE status = 'FAILED' AND retry_count = 3 AND error_message IS NOT NULL`) == "1" &&
					d.text(`SELECT count(*) FROM outbox_dispatch_jobs WHERE status = 'COMPLETED'`) == "1"
			})
			for _, request := range []string{
				`POST /api/events/batch Bearer secret [{"id": "0HZXEQ5Y8JY5Z", "type": "order.created"},{"n": 2}]`, `POST /api/dispatch/jobs/batch Bearer secret [{"n": 4}]`,
			} {
				if !a.has(request) {
					t.Errorf("there was no request %s, but %q", request, a.requests)
				}
			}
			if got := d.text(`SELECT status FROM outbox_events WHERE id = '0HZXEQ5Y8JY50'`); got != "PROCESSING" {
				t.Errorf("what another processor has claimed is %s", got)
			}
		})
	}
}

// The document's indexes, structure and findOneAndUpdate on MongoDB.
func TestFlowCatalystCollectionsOfTheDocument(t *testing.T) {
	t.Parallel()
	url, name := testenv.MongoDB(t)
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	must(t, err)
	t.Cleanup(func() { must(t, client.Disconnect(t.Context())) })
	db, a := client.Database(name), newAPI(t)
	for _, of := range []string{"outbox_events", "outbox_dispatch_jobs"} {
		_, err := db.Collection(of).Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "status", Value: 1}, {Key: "messageGroup", Value: 1}, {Key: "createdAt", Value: 1}}})
		must(t, err)
	}
	events := db.Collection("outbox_events")
	document := func(id, group, payload string) bson.D {
		return bson.D{{Key: "_id", Value: id}, {Key: "type", Value: "EVENT"}, {Key: "messageGroup", Value: group}, {Key: "payload", Value: payload}, {Key: "status", Value: "PENDING"},
			{Key: "retryCount", Value: 0}, {Key: "createdAt", Value: time.Now()}, {Key: "processedAt", Value: nil}, {Key: "errorMessage", Value: nil}}
	}
	_, err = events.InsertOne(t.Context(), document("0HZXEQ5Y8JY50", "order-0", `{"n":0}`))
	must(t, err)
	must(t, events.FindOneAndUpdate(t.Context(), bson.D{{Key: "status", Value: "PENDING"}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "PROCESSING"}, {Key: "processedAt", Value: time.Now()}}}},
		options.FindOneAndUpdate().SetSort(bson.D{{Key: "messageGroup", Value: 1}, {Key: "createdAt", Value: 1}}).SetReturnDocument(options.After)).Err())
	_, err = events.InsertOne(t.Context(), document("0HZXEQ5Y8JY5Z", "order-123", `{"n": 1}`))
	must(t, err)
	flowCatalystRelay(t, "MONGODB", strings.TrimSuffix(url, "/")+"/"+name, a)
	status := func(id string) string {
		var d struct {
			Status string `bson:"status"`
		}
		must(t, events.FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&d))
		return d.Status
	}
	eventually(t, "COMPLETED", func() bool { return status("0HZXEQ5Y8JY5Z") == "COMPLETED" })
	if !a.has(`POST /api/events/batch Bearer secret [{"n": 1}]`) || status("0HZXEQ5Y8JY50") != "PROCESSING" {
		t.Errorf("requests %q; what another processor has claimed is %s", a.requests, status("0HZXEQ5Y8JY50"))
	}
}
