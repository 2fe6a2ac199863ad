package peers

import (
	"errors"
	"net/url"
	"strconv"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
)

// The settings that Debezium is tuned with.
const (
	debeziumPoll          = "5"
	debeziumBatch         = "8192"
	debeziumQueue         = "32768" // four batches
	debeziumProducerBatch = "1048576"
)

// worker returns the properties of the worker: the payload goes into the record
// unchanged, and the producer has the guarantees of the other peers'.
func (d debezium) worker() map[string]string {
	const text = "org.apache.kafka.connect.storage.StringConverter"
	p := map[string]string{
		"key.converter":   text,
		"value.converter": text,

		"producer.acks":                                  "all",
		"producer.enable.idempotence":                    "true",
		"producer.max.in.flight.requests.per.connection": "5",
		"producer.linger.ms":                             d.linger,
		"producer.batch.size":                            debeziumProducerBatch,
		"producer.buffer.memory":                         "134217728", // 128 MiB
		"producer.compression.type":                      "none",
	}
	if d.lone {
		p["offset.flush.interval.ms"] = "1000" // not Kafka Connect's minute, of which all is repeated after a crash
	}
	return p
}

// debeziumConnector returns the properties of the connector: the job's database from
// its slot on, no snapshot, each row as a record with the key aggregateid in the
// job's topic, and rows that warm it in that topic with [warmSuffix].
func debeziumConnector(j measure.Job) (map[string]string, error) {
	db, err := pgx.ParseConfig(j.Postgres)
	if err != nil {
		return nil, err // pgx leaves the password out
	}
	p := map[string]string{
		"name":            "outbox",
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
		"tasks.max":       "1",
		"topic.prefix":    "bench",

		"database.hostname": db.Host,
		"database.port":     strconv.Itoa(int(db.Port)),
		"database.user":     db.User,
		"database.password": db.Password,
		"database.dbname":   db.Database,

		"plugin.name":                 "pgoutput",
		"slot.name":                   db.Database, // see beginLog
		"publication.name":            debeziumPublication,
		"publication.autocreate.mode": "disabled",
		"table.include.list":          "public." + debeziumTable,
		"snapshot.mode":               "no_data", // without an offset: from the slot on
		"tombstones.on.delete":        "false",

		"poll.interval.ms": debeziumPoll,
		"max.batch.size":   debeziumBatch,
		"max.queue.size":   debeziumQueue,

		"transforms":                                          "outbox",
		"transforms.outbox.type":                              "io.debezium.transforms.outbox.EventRouter",
		"transforms.outbox.route.topic.regex":                 debeziumType + "(.*)",
		"transforms.outbox.route.topic.replacement":           j.Topic + "$1",
		"transforms.outbox.table.fields.additional.placement": "type:header:type",
	}
	u, err := url.Parse(j.Postgres)
	if err != nil {
		return nil, errors.New("the address of the database is no URL") // the parser's own error repeats it
	}
	if mode := u.Query().Get("sslmode"); mode != "" {
		p["database.sslmode"] = mode
	}
	return p, nil
}
