package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// debeziumCase is a table that Debezium's outbox event router and Outrider both deliver.
type debeziumCase struct {
	payload string            // type of the column
	more    string            // further columns
	rows    []string          // payload and further columns, each as in VALUES
	router  map[string]string // settings of the connector
	source  string            // keys of Outrider's source
	value   string            // keys of its section debezium

	// Values that are the same JSON are equal: Debezium orders the fields of different objects in an array by their hashes.
	unordered bool
}

var asJSON = map[string]string{"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}

func with(a map[string]string, key, value string) map[string]string {
	m := maps.Clone(a)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

var debeziumDocuments = []string{
	`'{"b": 1, "a": 1.50, "n": null, "e": [], "o": {}}'`, `'{"x": [1, null, 2], "big": 12345678901, "huge": 1e10, "small": 0.0001, "neg": -0.0, "int": -5}'`,
	`'{"m": 12345678.9, "k": 1e7, "j": 9999999.5, "h": 0.001, "c": 100.0, "z": 1e18, "tiny": 1.5e-300, "i": 2147483647, "l": 2147483648}'`,
	`'{"s": "é\u2028\"\\ \u001f\n\t/ 😀 \u007f", "t": true}'`, `'{"h": [1, "a"]}'`, `'{"h": [1, 1.5]}'`, `'{"h": [1, 3000000000]}'`, `'{"z": [null]}'`,
	`'{"q": [[1,2],[3]], "r": [[{"a":1}],[{"b":2}]]}'`, `'"text"'`, `'5'`, `'null'`, `'{"d": 1, "d": 2, "c": 3}'`, `'{}'`, `'{"aa": {"n": null, "k": {"v": [true,false]}}}'`,
	`'{"l": [{"a": 1}, null, {"a": 2}], "e": [{}, {}]}'`, "NULL",
}

const expandPayload = "transforms.outbox.table.expand.json.payload"

var debeziumCases = map[string]debeziumCase{
	"jsonb":    {payload: "jsonb", rows: debeziumDocuments},
	"json":     {payload: "json", rows: debeziumDocuments},
	"text":     {payload: "text", rows: []string{`'hello'`, `''`, `'  '`, `NULL`, `'{"a":1}'`}},
	"bytes":    {payload: "bytea", rows: []string{`'\x00ff10'`, `''`, `NULL`}, router: map[string]string{"value.converter": "io.debezium.converters.BinaryDataConverter"}},
	"base64":   {payload: "bytea", rows: []string{`'\x00ff10'`, `''`, `NULL`}, router: asJSON, value: "value: base64"},
	"expand":   {payload: "jsonb", rows: debeziumDocuments, router: with(asJSON, expandPayload, "true"), value: "value: json, expand: true"},
	"expanded": {payload: "json", rows: debeziumDocuments, router: with(asJSON, expandPayload, "true"), value: "value: json, expand: true"},
	"merged": {payload: "json", rows: []string{`'{"l": [{"a": 1}, {"b": "x"}]}'`, `'{"l": [{"a": 1, "n": null}, {"a": 2, "n": 3}]}'`},
		router: with(asJSON, expandPayload, "true"), value: "value: json, expand: true", unordered: true},
	"strings": {payload: "text", rows: []string{`'hello'`, `''`, `NULL`, `'{"a":"\u00e9"}'`}, router: asJSON, value: "value: json"},
	"tombstones": {payload: "text", rows: []string{`'hello'`, `''`, `'  '`, `NULL`}, value: "tombstone: true",
		router: map[string]string{"transforms.outbox.route.tombstone.on.empty.payload": "true"}},
	"timestamps": {payload: "jsonb", more: ", at timestamp", rows: []string{`'{}', '2026-01-02 03:04:05.123456'`, `'{}', '2001-01-02 03:04:05'`},
		router: map[string]string{"transforms.outbox.table.field.event.timestamp": "at"}, source: "columns: {occurred_at: at}"},
	"headers": {payload: "jsonb", more: `, a_text text, b_int int, c_bigint bigint, d_bool boolean, e_uuid uuid, f_tz timestamptz, g_ts timestamp, h_ts timestamp(3),
			i_tz timestamptz(3), j_date date, k_time time, l_num numeric(10,2), m_bytes bytea, n_json json, o_jsonb jsonb, p_array text[], q_char char(4), r_double float8`,
		rows: []string{
			`'{}', 'té"x', 5, 6, true, '6f2b0c1e-0000-4000-8000-000000000001', '2026-01-02 03:04:05.123456+02', '2026-01-02 03:04:05.123456', '2026-01-02 03:04:05.123',
				'2026-01-02 03:04:05.1+00', '2026-01-02', '03:04:05.5', 1.50, '\x00ff', '{"a": 1}', '{"a": 1}', '{a,b}', 'ab', 1.5`,
			`'{}', '', -5, 6, false, '6f2b0c1e-0000-4000-8000-000000000001', '2026-01-02 03:04:05+00', '2026-01-02 03:04:05', '1969-01-02 03:04:05',
				'2026-01-02 03:04:05', '1969-01-02', '03:04:05', -1.5, '', '[1]', 'null', '{}', 'abcd', 0.1`,
		},
		router: map[string]string{"transforms.outbox.table.fields.additional.placement": "a_text:header,b_int:header,c_bigint:header,d_bool:header,e_uuid:header," +
			"f_tz:header,g_ts:header,h_ts:header,i_tz:header,j_date:header,k_time:header,l_num:header,m_bytes:header,n_json:header,o_jsonb:header,p_array:header," +
			"q_char:header,r_double:header,type:header:x_eventType"},
		source: "header_columns: [{column: a_text}, {column: b_int}, {column: c_bigint}, {column: d_bool}, {column: e_uuid}, {column: f_tz}, {column: g_ts}, {column: h_ts}, " +
			"{column: i_tz}, {column: j_date}, {column: k_time}, {column: l_num}, {column: m_bytes}, {column: n_json}, {column: o_jsonb}, {column: p_array}, " +
			"{column: q_char}, {column: r_double}, {column: type, header: x_eventType}]"},
}

// TestRecordsAreThoseOfDebezium has the real Debezium and Outrider deliver the same tables to Kafka, and compares the records one by
// one. It is skipped where Debezium's jars are not there: `make bench` downloads them.
func TestRecordsAreThoseOfDebezium(t *testing.T) {
	if !testenv.Full() {
		t.Skip("takes minutes, and a gigabyte of memory: make race runs it")
	}
	brokers := testenv.Kafka(t)
	found, err := provision.Host{}.Debezium(t.Context())
	if err != nil {
		t.Skip(err)
	}
	bin, err := provision.Host{}.Postgres(t.Context())
	if err != nil {
		t.Skip(err)
	}
	pg, err := server.StartPostgres(t.Context(), server.PostgresOptions{Bin: bin, Logical: true})
	must(t, err)
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, c := range debeziumCases { // one after the other: each worker takes a gigabyte
		t.Run(name, func(t *testing.T) {
			db := openDatabase(t, pg.URL())
			theirs, ours := newTopic(t, brokers), newTopic(t, brokers)
			config := c.outrider(name, pg.URL(), brokers, ours)
			c.create(t, db, name)
			if out := command(t, "init", "-c", writeConfig(t, config)); !strings.Contains(out, "added the columns") {
				t.Fatal(out)
			}
			for i, row := range c.rows {
				db.exec(fmt.Sprintf("INSERT INTO %s VALUES ('00000000-0000-4000-8000-%012d', 'Order', 'order-1', 'created', %s)", name, i, row))
			}
			worker, err := server.StartConnect(t.Context(), server.ConnectOptions{
				Java: found.Java, Jars: found.Connect, Plugins: found.Plugins, Brokers: brokers,
				Worker:    map[string]string{"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.storage.StringConverter"},
				Connector: c.connector(name, pg.URL(), theirs),
			})
			must(t, err)
			begun := time.Now()
			want := recordsByID(t, brokers, theirs, len(c.rows), worker.Log)
			must(t, worker.Close())
			relay := start(t, config)
			got := recordsByID(t, brokers, ours, len(c.rows), relay.output)
			relay.stop()
			for id, w := range want {
				c.compare(t, id, got[id], w, begun)
			}
			db.exec("SELECT pg_drop_replication_slot($1)", name)
		})
	}
}

// create makes the table, and what Debezium needs to read it from its first row.
func (c debeziumCase) create(t *testing.T, db *database, name string) {
	t.Helper()
	db.exec("CREATE TABLE " + name + " (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload " +
		c.payload + c.more + ")")
	db.exec("CREATE PUBLICATION " + name + " FOR TABLE " + name)
	db.exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", name)
}

// outrider is the configuration.
func (c debeziumCase) outrider(table, url string, brokers []string, topic string) string {
	return fmt.Sprintf(`admin: {listen: off}
sources:
  app: {type: postgres, url: %q, layout: debezium, table: %s, %s}
destinations:
  bus: {type: kafka, brokers: ["%s"], topic: %s, format: debezium, source: shop, debezium: {%s}}
routes:
  %s: {from: app, to: bus}
`, url, table, c.source, strings.Join(brokers, `", "`), topic, c.value, table)
}

// connector has the properties of Debezium's connector, which writes to one topic.
func (c debeziumCase) connector(table, url, topic string) map[string]string {
	db, err := pgx.ParseConfig(url)
	if err != nil {
		panic(err) // the server's own URL
	}
	p := map[string]string{
		"name": "outbox", "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1", "topic.prefix": "shop",
		"database.hostname": db.Host, "database.port": strconv.Itoa(int(db.Port)), "database.user": db.User, "database.dbname": db.Database,
		"database.password": db.Password, "database.sslmode": "disable",
		"plugin.name": "pgoutput", "slot.name": table, "publication.name": table, "publication.autocreate.mode": "disabled",
		"table.include.list": "public." + table, "snapshot.mode": "no_data", "tombstones.on.delete": "false",
		"transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter", "transforms.outbox.route.topic.replacement": topic,
	}
	maps.Copy(p, c.router)
	return p
}

// recordsByID reads so many records of a topic, by their header id.
func recordsByID(t *testing.T, brokers []string, topic string, n int, log func() string) map[string]*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	defer client.Close()
	records := map[string]*kgo.Record{}
	until(t, fmt.Sprintf("%d records are in %s", n, topic), func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			for _, h := range r.Headers {
				if h.Key == "id" {
					records[string(h.Value)] = r
				}
			}
		})
		if len(records) < n && strings.Contains(log(), "Task is being killed") {
			t.Fatal(log())
		}
		return len(records) >= n
	})
	return records
}

// compare compares a record with Debezium's. One without a time of its own has that of its delivery.
func (c debeziumCase) compare(t *testing.T, id string, got, want *kgo.Record, begun time.Time) {
	t.Helper()
	same := reflect.DeepEqual(got.Value, want.Value)
	if c.unordered {
		var a, b any
		must(t, json.Unmarshal(got.Value, &a))
		must(t, json.Unmarshal(want.Value, &b))
		same = reflect.DeepEqual(a, b)
	}
	if !same {
		t.Errorf("%s: value\n  is       %q (nil: %v)\n  Debezium %q (nil: %v)", id, got.Value, got.Value == nil, want.Value, want.Value == nil)
	}
	if !reflect.DeepEqual(got.Key, want.Key) {
		t.Errorf("%s: key is %q, Debezium %q", id, got.Key, want.Key)
	}
	if text := func(h kgo.RecordHeader) string { return fmt.Sprintf("%s=%q nil: %v", h.Key, h.Value, h.Value == nil) }; !slices.EqualFunc(got.Headers, want.Headers,
		func(a, b kgo.RecordHeader) bool { return text(a) == text(b) }) {
		t.Errorf("%s: headers\n  are      %q\n  Debezium %q", id, got.Headers, want.Headers)
	}
	if now := want.Timestamp.After(begun.Add(-time.Hour)); !now && !got.Timestamp.Equal(want.Timestamp) || now && got.Timestamp.Before(begun) {
		t.Errorf("%s: timestamp is %v, Debezium %v", id, got.Timestamp, want.Timestamp)
	}
}
