package debezium

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/compat/internal/foreign"
)

// Result is the result of an import.
type Result = foreign.Result

// importer is one import.
type importer struct {
	*foreign.File
	router string // begins the keys of the transform
}

// connector is the class of the connectors whose tables Outrider reads.
const connector = "io.debezium.connector.postgresql.PostgresConnector"

// routerType is the transform's class.
const routerType = "io.debezium.transforms.outbox.EventRouter"

// Import reads the settings of a connector. The error lists everything that makes an import impossible.
func Import(name string, text []byte) (Result, error) {
	all, err := foreign.Read(name, text)
	if err != nil {
		return Result{}, err
	}
	for i := range all { // {"name": ..., "config": {...}}, as Kafka Connect's API takes it
		all[i].Key = strings.TrimPrefix(all[i].Key, "config.")
	}
	im := &importer{File: foreign.NewFile(name, all, "", "")}
	for _, s := range all {
		if alias, ok := strings.CutSuffix(s.Key, ".type"); ok && s.Value == routerType {
			im.router = alias + "."
		}
	}
	if im.router == "" {
		return Result{}, fmt.Errorf("%s: no transform has the type %s; name the file of a connector with the outbox event router", name, routerType)
	}
	if class := im.text("connector.class", connector); class != connector {
		return Result{}, fmt.Errorf("%s: connector.class is %s: Outrider reads the router's table in PostgreSQL only, where rows that are committed late can be found", name, class)
	}
	out := im.result()
	im.leftOut()
	return im.Result(out)
}

// text returns a setting, or its default.
func (im *importer) text(key, usual string) string {
	s, _ := im.Own(key)
	return cmp.Or(s.Value, usual)
}

// of returns a setting of the router, or its default.
func (im *importer) of(key, usual string) string { return im.text(im.router+key, usual) }

// result writes the configuration.
func (im *importer) result() string {
	w := im.NewWriter()
	prefix := im.text("topic.prefix", "outrider")
	w.Line("sources:\n  app:\n    type: postgres")
	w.Line("    url: %s # database.*", foreign.Quoted(im.url()))
	w.Line("    layout: debezium\n    table: %s # table.include.list", foreign.Quoted(im.table()))
	im.columns(w)
	w.Line("destinations:\n  bus:\n    type: kafka")
	im.Samples["KAFKA_BROKERS"] = "127.0.0.1:9092"
	w.Line("    brokers: [\"${KAFKA_BROKERS}\"] # bootstrap.servers of the worker")
	topic, topics := im.topic()
	w.Line("    topic: %s # route.topic.replacement", foreign.Quoted(topic))
	if topics != "" {
		w.Line("    topics: [%s]", foreign.Quoted(topics))
	}
	w.Line("    format: debezium\n    source: %s # topic.prefix", foreign.Quoted(prefix))
	if value := im.value(); value != "" {
		w.Line("    debezium: {%s}", value)
	}
	w.Line("routes:\n  %s:\n    from: app\n    to: bus", routeName(im.text("name", "outbox")))
	return w.String()
}

// url makes the URL of the database. A password is never copied.
func (im *importer) url() string {
	const variable = "DATABASE_URL"
	password, secret := im.Own("database.password")
	parts := map[string]string{}
	for _, key := range []string{"hostname", "port", "user", "dbname", "sslmode"} {
		parts[key] = im.text("database."+key, "")
		if s, ok := im.Own("database." + key); ok && strings.Contains(s.Value, "${") {
			im.Note(s, "%s comes from a provider of Kafka Connect: set %s to the postgres:// URL of the table", s.Key, variable)
			parts["hostname"] = ""
		}
	}
	im.Samples[variable] = "postgres://127.0.0.1/app"
	if parts["hostname"] == "" {
		return "${" + variable + "}"
	}
	login := escape(parts["user"])
	if secret {
		login += ":${DATABASE_PASSWORD}"
		im.Samples["DATABASE_PASSWORD"] = "secret"
		im.Note(password, "database.password is not copied: put it into the variable DATABASE_PASSWORD, percent-encoded")
	}
	url := "postgres://" + login + "@" + parts["hostname"] + ":" + cmp.Or(parts["port"], "5432") + "/" + escape(parts["dbname"])
	switch mode := parts["sslmode"]; mode {
	case "disable", "require", "verify-ca", "verify-full":
		return url + "?sslmode=" + mode
	}
	im.Note(foreign.Setting{}, "database.sslmode is prefer: Outrider uses TLS and checks the certificate, unless the server is on this machine; see the key tls of the source")
	return url
}

func escape(text string) string { return strings.ReplaceAll(url.PathEscape(text), "$", "$$") }

// table is the table of the list, which has regular expressions.
func (im *importer) table() string {
	s, ok := im.Own("table.include.list")
	tables := strings.Split(strings.ReplaceAll(s.Value, `\.`, "."), ",")
	table := strings.TrimSpace(tables[0])
	switch {
	case !ok:
		im.Note(s, "table.include.list is not set: Outrider reads one table: correct the result")
		return "outbox"
	case len(tables) > 1:
		im.Note(s, "%s: a source reads one table: add a source and a route for each of %s", s.Key, strings.TrimSpace(strings.Join(tables[1:], ",")))
	}
	if !plainTable.MatchString(table) {
		im.Note(s, "%s: %s is a pattern: name the table in the result", s.Key, table)
		return "outbox"
	}
	if table != strings.ToLower(table) { // without quotes PostgreSQL folds it
		return `"` + strings.ReplaceAll(table, ".", `"."`) + `"`
	}
	return table
}

var plainTable = regexp.MustCompile(`^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?$`)

// columns writes the columns that have other names, and those that are headers.
func (im *importer) columns(w *foreign.Writer) {
	var renamed []string
	for _, c := range []struct{ key, usual, ours string }{
		{"table.field.event.id", "id", "id"}, {"table.field.event.key", "aggregateid", "group"}, {"table.field.event.key", "aggregateid", "aggregate_id"},
		{"table.field.event.payload", "payload", "payload"}, {"route.by.field", "aggregatetype", "aggregate_type"},
		{"table.field.event.timestamp", "", "occurred_at"},
	} {
		if name := im.of(c.key, c.usual); name != c.usual {
			renamed = append(renamed, c.ours+": "+literal(name))
		}
	}
	if len(renamed) > 0 {
		w.Line("    columns: {%s} # table.field.event.*, route.by.field", strings.Join(renamed, ", "))
	}
	s, _ := im.Own(im.router + "table.fields.additional.placement")
	var headers []string
	for field := range strings.SplitSeq(s.Value, ",") {
		parts := append(strings.Split(strings.TrimSpace(field), ":"), "", "")
		switch column, alias := parts[0], parts[2]; parts[1] {
		case "header":
			header := "{column: " + literal(column)
			if alias != "" {
				header += ", header: " + literal(alias)
			}
			headers = append(headers, header+"}")
		case "envelope":
			im.Note(s, "%s: %s is placed in an envelope around the payload, which Outrider does not write: place it as a header, or in the payload", s.Key, column)
		case "partition":
			im.Note(s, "%s: %s chooses the partition; with Outrider the key does", s.Key, column)
		}
	}
	if len(headers) > 0 {
		w.Line("    header_columns: [%s] # table.fields.additional.placement", strings.Join(headers, ", "))
	}
}

// placeholder is the router's default, and others that mean the same.
var placeholder = regexp.MustCompile(`\$\{routedByValue\}|\$1|\$0`)

// topic makes the template of the topic and the pattern of those that it may produce.
func (im *importer) topic() (topic, pattern string) {
	replacement := im.of("route.topic.replacement", "outbox.event.${routedByValue}")
	if s, ok := im.Own(im.router + "route.topic.regex"); ok && s.Value != "(?<routedByValue>.*)" && s.Value != "(.*)" && s.Value != ".*" {
		im.Note(s, "%s: a regular expression cannot be kept: write the topic as a template (lower, upper and replace are its functions)", s.Key)
	}
	if !placeholder.MatchString(replacement) {
		return strings.ReplaceAll(replacement, "$", "$$"), ""
	}
	return placeholder.ReplaceAllLiteralString(replacement, "{{.AggregateType}}"), placeholder.ReplaceAllLiteralString(replacement, "*")
}

// value says how payloads are written.
func (im *importer) value() string {
	const converter = "value.converter"
	var parts []string
	kind := im.text(converter, "")
	switch s, _ := im.Own(converter); kind[strings.LastIndex(kind, ".")+1:] {
	case "StringConverter", "BinaryDataConverter", "ByteArrayConverter":
	case "JsonConverter":
		if schemas, ok := im.Own(converter + ".schemas.enable"); !ok || schemas.Value != "false" {
			im.Note(s, "%s: JsonConverter with schemas writes one around each value, which Outrider does not", s.Key)
		}
		parts = append(parts, "value: json")
		im.Note(s, "%s: if the payload is bytea, set value: base64", s.Key)
	case "":
		im.Note(s, "value.converter is the worker's: the result is for StringConverter; for JsonConverter without schemas set debezium: {value: json}")
	default:
		im.Note(s, "%s: Outrider has no such converter: the payload is written as it is", s.Key)
	}
	if im.of("table.expand.json.payload", "false") == "true" {
		if len(parts) > 0 {
			parts = append(parts, "expand: true")
		} else {
			im.Note(foreign.Setting{}, "table.expand.json.payload takes JsonConverter: set debezium: {value: json, expand: true} if the worker has it")
		}
	}
	if im.of("route.tombstone.on.empty.payload", "false") == "true" {
		parts = append(parts, "tombstone: true")
	}
	return strings.Join(parts, ", ")
}

// routeName makes the name of a route of that of the connector.
func routeName(text string) string {
	name := regexp.MustCompile(`[^a-z0-9_-]+`).ReplaceAllString(strings.ToLower(text), "-")
	return cmp.Or(strings.Trim(name[:min(len(name), 48)], "-_"), "outbox")
}

func literal(text string) string { return foreign.Quoted(strings.ReplaceAll(text, "$", "$$")) }

// usual are settings with the only value that Outrider has.
var usual = map[string]string{
	"key.converter": "org.apache.kafka.connect.storage.StringConverter", "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
	"tasks.max": "1", "extended.headers.enabled": "true",
}

// ofRouter are the same of the router.
var ofRouter = map[string]string{"type": routerType, "table.json.payload.null.behavior": "ignore", "table.json.payload.empty.array.behavior": "ignore"}

// reasons are why settings that begin so are left out.
var reasons = []struct{ prefix, why string }{
	{"key.converter", "a key is written as text, as StringConverter does"},
	{"value.converter", "the converter of the result has no such setting"},
	{"header.converter", "headers are written as text, as SimpleHeaderConverter does"},
	{"transforms.", "Outrider has no transforms; a route has match, and a destination a template of the topic"},
	{"predicates", "Outrider has no predicates; a route has match"},
	{"producer.override.", "see the keys compression, timeout and exclusive of the destination"},
	{"topic.creation.", "topics are created by `outrider topic create`"},
	{"errors.", "see the middleware poison and retry of the route"},
	{"tasks.max", "several instances share the lanes of a route"},
	{"extended.headers.enabled", "the headers __debezium.context.* are always written"},
	{"database.ssl", "see the key tls of the source"},
}

// ofTheLog begin settings of what Outrider does not have, because it reads the table.
var ofTheLog = []string{"slot.", "publication.", "plugin.name", "snapshot.", "heartbeat.", "tombstones.on.delete", "poll.interval.ms", "max.batch.size", "max.queue.",
	"incremental.", "signal.", "read.only", "status.update", "xmin.", "provide.transaction.metadata", "lsn.", "schema.include.list", "offset.", "flush.", "retriable."}

// leftOut notes what was not taken, and why.
func (im *importer) leftOut() {
	im.Own("connector.class")
	im.Own("transforms")
	for key, value := range ofRouter {
		if s, ok := im.Own(im.router + key); ok && s.Value != value {
			im.Note(s, "%s: Outrider does what %s does", s.Key, value)
		}
	}
	if s, ok := im.Own(im.router + "table.op.invalid.behavior"); ok {
		im.Note(s, "%s is left out: an UPDATE of a row is not seen", s.Key)
	}
	var log []string
	for _, s := range im.Unused() {
		began := func(prefix string) bool { return strings.HasPrefix(s.Key, prefix) }
		if usual[s.Key] == s.Value {
			continue
		}
		if slices.ContainsFunc(ofTheLog, began) {
			log = append(log, s.Key)
			continue
		}
		why := "it has no equivalent"
		if i := slices.IndexFunc(reasons, func(r struct{ prefix, why string }) bool { return began(r.prefix) }); i >= 0 {
			why = reasons[i].why
		}
		im.Note(s, "%s is left out: %s", s.Key, why)
	}
	if len(log) > 0 {
		im.Note(foreign.Setting{}, "left out, because Outrider reads the table and not the log: %s", strings.Join(log, ", "))
	}
	im.Note(foreign.Setting{}, "if the application deletes a row right after it has inserted it, remove that: Outrider reads rows from the table")
}
