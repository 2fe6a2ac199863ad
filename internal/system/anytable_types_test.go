package system_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/outriderhq/outrider/internal/testenv"
)

// long is a text of so many characters that no compression makes shorter by much.
func long(n int) string {
	var b strings.Builder
	for sum := sha256.Sum256([]byte{37}); b.Len() < n; sum = sha256.Sum256(sum[:]) {
		b.WriteString(hex.EncodeToString(sum[:]))
	}
	return "'" + b.String()[:n] + "'"
}

// sameAs are the names that collations and columns take for one, and those that mean something to Outrider.
var sameAs = []string{"NULL", "''", "'a'", "'A'", "'a '", "'é'", "'e'", "'=x'", "'.'", "'x'", "':x'", "'受😀'", "'T:x'"}

func quoted2(name string) string { return `"` + name + `"` }

func postgresTypes() *anyDatabase {
	cast := func(column string, k kind) string {
		if strings.HasPrefix(k.sql, "decimal") { // a group: equal numbers are one
			column = "trim_scale(" + column + ")"
		}
		return "CAST(" + column + " AS text)"
	}
	times := func(sql, zone string) kind {
		return kind{sql: sql, values: []string{"now()" + zone, "'2026-01-31 08:00:00'", "'2026-01-31 08:00:00'", "~'infinity'", "~'-infinity'", "'0002-01-01'", "!'4713-01-01 BC'", "!'294276-12-31 23:59:59.999999'", "'9999-12-31 23:59:59'"}}
	}
	due := []string{"NULL", "'2026-01-31 08:00:00'", "'-infinity'", "'4713-01-01 BC'"}
	return &anyDatabase{
		name: "postgres", source: "type: postgres, url: %q", quote: quoted2, text: cast,
		layouts: []string{"custom", "flowcatalyst", "flowcatalyst-v2", "talkie", "open-outbox", "outbox-framework", "yantra", "yantra-v2"},
		before: []string{"CREATE EXTENSION citext", "CREATE DOMAIN short AS char(6)", "CREATE DOMAIN word AS text CHECK (VALUE <> 'no')",
			"CREATE TYPE letter AS ENUM ('a', 'A', 'B', 'aa')", "CREATE TYPE pair AS (a text, b int)"},
		payload: func(column string, k kind) string {
			if k.sql == "bytea" {
				return column
			}
			return cast(column, k)
		},
		shape: `SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{t}'::regclass AND attnum > 0
			UNION SELECT indexrelid::regclass::text, '' FROM pg_index WHERE indrelid = '{t}'::regclass`,
		columns: map[string][]kind{
			"other": {{sql: "text"}}, "table": {{}},
			"key": {
				{sql: "text", values: []string{"'a'", "'A'", "'a '", "'é'", "'7'", "'7x'", "' '", long(1000), "!" + long(1100), "'%'", "'x/y\tz'"}, key: "'k#'"},
				{sql: "varchar(40)", key: "'k#'"}, {sql: "char(13)", values: []string{"'7'", "'a b'"}, key: "'k#'"}, {sql: "bpchar", key: "'k#'"},
				{sql: "uuid", key: "'0190f000-0000-7000-8000-0000000000#'"},
				{sql: "bigint", values: []string{"7", "8", "10", "0", "-9223372036854775808", "9223372036854775807"}, key: "1#"}, {sql: "smallint", key: "1#"},
				{sql: "numeric", values: []string{"7", "7.50", "1e30", "0.1"}, key: "1#"}, {sql: "short", key: "'k#'"}, {sql: "word", key: "'k#'"},
				{sql: "citext", key: "'K#'", may: true}, {sql: "letter", values: []string{"'a'", "'A'", "'B'", "'aa'"}, may: true},
				{sql: "bytea", values: []string{`'\x00'`, `'\xff'`, `'\x37'`}, key: `'\xab#'`, may: true}, {sql: "bit(8)", values: []string{"'00000111'", "'10000000'", "'00000001'", "'11111111'"}, may: true},
				{sql: "int[]", key: "'{7,1#}'", may: true}, {sql: "pair", key: "'(x,1#)'", may: true}, {sql: "timestamptz", key: "'2026-01-31 08:00:#'", may: true}, {sql: "inet", key: "'10.0.0.1#'", may: true},
				{sql: `"char"`, values: []string{"'a'", "'b'", "'7'"}, may: true}, {sql: "name", key: "'k#'", may: true},
			},
			"group": {
				{sql: "text", values: append([]string{long(1000), "!" + long(1100), "!" + long(4000)}, sameAs...)}, {sql: "varchar", values: append([]string{"!" + long(8000)}, sameAs...)},
				{sql: "varchar(300)", values: sameAs}, {sql: "char(10)", values: []string{"NULL", "'a'", "'A'", "'b c'", "'é'"}}, {sql: "bpchar", values: []string{"'a'", "'A'", "'b c'"}},
				{sql: "uuid", values: []string{"NULL", "'0190f000-0000-7000-8000-0000000000ff'", "'ff00f000-0000-4000-8000-0000000000ff'"}},
				{sql: "bigint", values: []string{"NULL", "0", "7", "-9223372036854775808"}}, {sql: "decimal(30,4)", values: []string{"1", "1.5", "NULL"}},
				{sql: "decimal", values: []string{"1", "1.50", "1.5", "1e100", "'NaN'"}}, {sql: "word", values: append([]string{"!" + long(4000)}, sameAs...)}, {sql: "short", values: []string{"'a'", "'A'"}},
				{sql: "citext", values: []string{"'x'", "'y'"}, may: true}, {sql: "letter", values: []string{"'a'", "'A'", "NULL"}}, {sql: "bytea", values: []string{`'\x00'`, `'\xff'`, "NULL"}, may: true},
				{sql: "bit(8)", values: []string{"'00000111'", "'10000000'"}, may: true}, {sql: "int[]", values: []string{"'{1}'", "'{1,2}'", "NULL"}, may: true}, {sql: "pair", values: []string{"'(x,1)'", "'(,)'", "NULL"}, may: true},
				{sql: "date", values: []string{"'2026-01-31'", "'infinity'"}, may: true}, {sql: "timestamptz", values: []string{"'2026-01-31'", "'infinity'"}, may: true}, {sql: "inet", values: []string{"'10.0.0.1'", "NULL"}, may: true},
				{sql: "boolean", values: []string{"true", "false", "NULL"}}, {sql: "jsonb", values: []string{`'{"a":1}'`, `'"a"'`}, may: true}, {sql: "json", values: []string{`'{"a":1}'`, "NULL"}, may: true},
				{sql: "name", values: []string{"'a'", "'A'"}, may: true}, {sql: "point", values: []string{"'(1,2)'", "NULL"}, may: true}, {sql: "interval", values: []string{"'1 day'", "'24 hours'"}, may: true},
			},
			"payload": {
				{sql: "text", values: []string{`'{"n":"#"}'`, `' ["#", 1e400, 12345678901234567890] '`, `'{"é":"受😀","n":"#"}'`, "!'not json #'", "!''"}},
				{sql: "json", values: []string{`'{"n":"#"}'`, `' {"n" : "#", "n":1} '`}}, {sql: "jsonb", values: []string{`'{"n":"#"}'`, `'["é", "#", 1.0]'`}}, {sql: "varchar(400)", values: []string{`'{"n":"#"}'`}},
				{sql: "bytea", bytes: true, values: []string{`convert_to('{"n":"#"}', 'UTF8')`, `convert_to('#', 'UTF8') || '\x00ff'`}},
			},
			"status": {{sql: "varchar(20)"}, {sql: "smallint", number: true}, {sql: "text"}, {sql: "char(20)"}, {sql: "integer", number: true}, {sql: "numeric(3)", number: true, may: true}, {sql: "varchar(2)", number: true},
				{sql: "char(1)", number: true}, {sql: "word"}, {sql: "citext", may: true}},
			"created": {times("timestamptz", ""), times("timestamp", " AT TIME ZONE 'UTC'"), times("timestamptz(0)", ""), {sql: "timestamptz", values: []string{"'2026-01-31 08:00:00'"}}},
			"error":   {{sql: "text"}, {sql: "varchar(4000)"}, {sql: "varchar(30)"}, {sql: "word", may: true}}, "next_attempt": {{sql: "timestamptz", values: due}, {sql: "timestamp", values: due}},
		},
	}
}

func TestTablesOfAnyTypeInPostgreSQL(t *testing.T) {
	t.Parallel()
	for encoding, most := range map[string]int{"UTF8": anyTables(16), "LATIN1": anyTables(4), "EUC_JP": anyTables(4)} {
		t.Run(encoding, func(t *testing.T) {
			at := testenv.Postgres(t)
			if encoding != "UTF8" {
				admin := openPostgres(t, at)
				u, err := url.Parse(at)
				must(t, err)
				u.Path += strings.ToLower(encoding)
				at = u.String()
				_, err = admin.ExecContext(t.Context(), fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C'", u.Path[1:], encoding))
				must(t, err)
				t.Cleanup(func() {
					_, err := admin.Exec("DROP DATABASE " + u.Path[1:] + " WITH (FORCE)")
					must(t, err)
				})
			}
			of := postgresTypes()
			if encoding != "UTF8" {
				of = of.right()
			}
			everyTable(t, of, openPostgres(t, at+"&client_encoding=UTF8"), at, most)
		})
	}
}

func mysqlTypes() *anyDatabase {
	isBytes := func(k kind) bool {
		return strings.HasPrefix(k.sql, "binary") || strings.HasPrefix(k.sql, "varbinary") || strings.HasSuffix(k.sql, "blob")
	}
	return &anyDatabase{
		name: "mysql", source: "type: mysql, url: %q", quote: func(name string) string { return "`" + name + "`" },
		layouts: []string{"custom", "flowcatalyst", "talkie", "outbox-framework"},
		text: func(column string, k kind) string {
			if isBytes(k) {
				return "LOWER(HEX(" + column + "))"
			}
			if strings.Contains(k.sql, "zerofill") && k.sql != "int(6) zerofill" { // in a group's name zeros count
				column += " + 0"
			}
			return "CONVERT(" + column + " USING utf8mb4)"
		},
		payload: func(column string, _ kind) string { return column },
		shape: `SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = database() AND table_name = '{t}'
			UNION SELECT index_name, '' FROM information_schema.statistics WHERE table_schema = database() AND table_name = '{t}'`,
		columns: map[string][]kind{
			"other": {{sql: "varchar(60)", key: " NULL"}},
			"table": {{}, {sql: "ROW_FORMAT=COMPACT", may: true}, {sql: "CHARACTER SET latin1"}, {sql: "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"}, {sql: "PARTITION BY KEY() PARTITIONS 2"}},
			"key": {
				{sql: "varchar(40)", values: []string{"'a'", "'A'", "'a '", "'é'", "'7'", "'7x'", "'%'"}, key: "'k#'"}, {sql: "varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", values: []string{"'a'", "'A'"}, key: "'k#'"},
				{sql: "varchar(60) CHARACTER SET latin1 COLLATE latin1_german1_ci", values: []string{"'ä'", "'a'"}, key: "'k#'"}, {sql: "char(20)", values: []string{"'7'", "'a b'"}, key: "'k#'"},
				{sql: "binary(16)", values: []string{"unhex('0190f0000000700080000000000000ff')", "unhex('ff00f0000000700080000000000001ff')"}, key: "unhex('0190f0000000700080000000000000#')"},
				{sql: "varbinary(40)", values: []string{"x'ff'", "x'00'", "'7'"}, key: "'k#'"}, {sql: "bigint", values: []string{"7", "8", "10", "-9223372036854775808"}, key: "1#"},
				{sql: "bigint unsigned", values: []string{"18446744073709551615", "9223372036854775808"}, key: "1#"}, {sql: "int(8) zerofill", key: "1#"}, {sql: "decimal(20,4)", values: []string{"7", "7.5"}, key: "1#"},
				{sql: "uuid", key: "'0190f000-0000-7000-8000-0000000000#'"}, {sql: "enum('a','b','c','d','e')", values: []string{"'a'", "'b'", "'c'", "'d'"}, may: true},
				{sql: "varchar(520) CHARACTER SET utf8mb4", key: "'k#'", may: true}, {sql: "datetime(6)", key: "'2026-01-31 08:00:#'", may: true}, {sql: "double", key: "1#.25", may: true}, {sql: "bit(16)", key: "1#", may: true},
			},
			"group": {
				{sql: "varchar(255) CHARACTER SET utf8mb4", values: sameAs}, {sql: "varchar(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", values: sameAs}, {sql: "varchar(100) CHARACTER SET latin1", values: sameAs},
				{sql: "text CHARACTER SET utf8mb4", values: append([]string{long(1000), "!" + long(1100), "!" + long(4000)}, sameAs...)}, {sql: "varchar(3000)", values: []string{"!" + long(3000), "'a'", long(1000)}},
				{sql: "char(36) CHARACTER SET utf8mb4", values: []string{"NULL", "'a'", "'A'", "'b c'", "'é'", "''"}}, {sql: "char(36) CHARACTER SET latin1", values: []string{"'a'", "'ä'"}},
				{sql: "binary(16)", values: []string{"unhex('ff00f0000000700080000000000000ff')", "unhex('aa00f0000000700080000000000000ff')", "NULL"}}, {sql: "varbinary(50)", values: []string{"x'ff'", "x'00'", "x'8081'"}},
				{sql: "bigint", values: []string{"NULL", "0", "-7"}}, {sql: "bigint unsigned", values: []string{"18446744073709551615", "7"}}, {sql: "decimal(30,4)", values: []string{"1", "1.5"}}, {sql: "int(6) zerofill", values: []string{"1", "7"}},
				{sql: "uuid", values: []string{"NULL", "'ff00f000-0000-4000-8000-0000000000ff'", "'aa00f000-0000-4000-8000-0000000000ff'"}}, {sql: "enum('a','b')", values: []string{"NULL", "'a'", "'b'"}},
				{sql: "json", values: []string{`'"g"'`, `'{"a":1}'`, "NULL"}}, {sql: "date", values: []string{"'2026-01-31'", "NULL"}, may: true}, {sql: "timestamp NULL", values: []string{"'2026-01-31 08:00:00'"}, may: true},
				{sql: "datetime(6)", values: []string{"'2026-01-31 08:00:00'", "'9999-12-31 23:59:59'"}, may: true}, {sql: "double", values: []string{"1.5", "7"}, may: true}, {sql: "bit(8)", values: []string{"b'11111111'", "b'1'"}, may: true},
				{sql: "set('a','b')", values: []string{"'a,b'", "'b'"}, may: true}, {sql: "time", values: []string{"'08:00:00'"}, may: true}, {sql: "year", values: []string{"2026"}, may: true}, {sql: "blob", values: []string{"x'ff00'", "x'80'"}, may: true},
			},
			"payload": {
				{sql: "longtext CHARACTER SET utf8mb4", values: []string{`'{"n":"#"}'`, `' ["#", 1e400, 12345678901234567890] '`, `'{"é":"受😀","n":"#"}'`, "!'not json #'", "!''"}}, {sql: "json", values: []string{`'{"n":"#"}'`}},
				{sql: "varchar(400)", values: []string{`'{"n":"#"}'`}}, {sql: "text CHARACTER SET latin1", values: []string{`'{"n":"#"}'`, `'{"é":"#"}'`}}, {sql: "longblob", bytes: true, values: []string{`'{"n":"#"}'`, "concat('#', x'00ff')"}},
				{sql: "varbinary(400)", bytes: true, values: []string{`'{"n":"#"}'`}}, {sql: "char(200)", values: []string{`'{"n":"#"}'`}},
			},
			"status": {{sql: "varchar(20)"}, {sql: "tinyint", number: true}, {sql: "char(20)"}, {sql: "enum(%s)"}, {sql: "enum(%s)", number: true}, {sql: "int(3) unsigned zerofill", number: true}, {sql: "decimal(3)", number: true, may: true},
				{sql: "varchar(20) CHARACTER SET latin1"}, {sql: "varchar(5)", number: true}, {sql: "bit(3)", number: true, may: true, values: []string{"b'0'"}}, {sql: "varbinary(20)", may: true}, {sql: "set(%s)", may: true}, {sql: "text", may: true},
				{sql: "double", number: true, may: true}, {sql: "boolean", number: true}},
			"created": {{sql: "datetime(6)", values: []string{"'2026-01-31 08:00:00'", "utc_timestamp(6)", "'1000-01-01'", "'9999-12-31 23:59:59.999999'", "'2026-01-31 08:00:00'"}},
				{sql: "timestamp(6)", values: []string{"'2026-01-31 08:00:00'", "now(6)", "'2026-01-31 08:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"}}, {sql: "datetime", values: []string{"'2026-01-31 08:00:00'"}}, {sql: "timestamp", values: []string{"'2026-01-31 08:00:00'"}}},
			"error":        {{sql: "text"}, {sql: "varchar(30)"}, {sql: "varchar(4000) CHARACTER SET latin1"}, {sql: "tinytext CHARACTER SET utf8mb3"}, {sql: "blob", may: true}},
			"next_attempt": {{sql: "datetime(6)", values: []string{"NULL", "'2026-01-31 08:00:00'", "'1000-01-01'"}}, {sql: "timestamp NULL", values: []string{"NULL", "'2026-01-31 08:00:00'", "'1970-01-01 00:00:01'"}}},
		},
	}
}

func TestTablesOfAnyTypeInMariaDB(t *testing.T) {
	t.Parallel()
	at := testenv.MySQL(t)
	u, err := url.Parse(at)
	must(t, err)
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName, cfg.Params = u.User.Username(), "tcp", u.Host, u.Path[1:], map[string]string{"time_zone": "'+00:00'"}
	cfg.Passwd, _ = u.User.Password()
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { must(t, db.Close()) })
	everyTable(t, mysqlTypes(), db, at, anyTables(16))
}

func sqliteTypes() *anyDatabase {
	times := []string{"'2026-01-31T08:00:00.000Z'", "'2026-01-31T08:00:00.000Z'", "'0002-01-01T00:00:00.000Z'", "'9999-12-31T23:59:59.999Z'", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"}
	return &anyDatabase{
		name: "sqlite", source: "type: sqlite, path: %q", layouts: []string{"custom", "flowcatalyst", "talkie", "open-outbox", "outbox-framework"}, quote: quoted2,
		text: func(column string, k kind) string {
			switch {
			case k.bytes: // a key, as SQL writes bytes
				return "CASE WHEN typeof(" + column + ") = 'blob' THEN 'x''' || lower(hex(" + column + ")) || '''' ELSE " + column + " END"
			case k.sql == "": // and text that could be a number
				return "CASE WHEN typeof(" + column + ") = 'text' AND " + column + " = '7' THEN '''7''' ELSE CAST(" + column + " AS TEXT) END"
			}
			return "CAST(" + column + " AS TEXT)"
		},
		payload: func(column string, k kind) string {
			if k.bytes {
				return column
			}
			return "CAST(" + column + " AS TEXT)"
		},
		shape: `SELECT name, coalesce(sql, '') FROM sqlite_master WHERE tbl_name = '{t}'`,
		columns: map[string][]kind{
			"other": {{sql: "text"}}, "table": {{}, {sql: "WITHOUT ROWID"}},
			"key": {{sql: "text", values: []string{"'a'", "'A'", "'a '", "'é'", "'7'", "'7x'", long(1000)}, key: "'k#'"}, {sql: "integer", values: []string{"7", "8", "10", "-9223372036854775808", "9223372036854775807"}, key: "1#"},
				{sql: "text COLLATE NOCASE", values: []string{"'a'", "'B'"}, key: "'k#'"}, {sql: "varchar(13)", key: "'k#'"}, {sql: "bigint", key: "1#"}, {sql: "numeric", values: []string{"7", "'x'"}, key: "1#"},
				{sql: "", values: []string{"7", "'7'", "'a'"}, key: "'k#'", may: true}, {sql: "blob", bytes: true, values: []string{"x'ff'", "x'00'", "'a7'"}, key: "x'ab#'", may: true}, {sql: "real", key: "1#.25", may: true}, {sql: "uuid", key: "'0190f000-0000-7000-8000-0000000000#'", may: true}},
			"group": {{sql: "text", values: append([]string{long(1000), "!" + long(1100), "!" + long(4000)}, sameAs...)}, {sql: "text COLLATE NOCASE", values: sameAs}, {sql: "varchar(20)", values: sameAs}, {sql: "integer", values: []string{"NULL", "7", "0", "'x'"}},
				{sql: "numeric", values: []string{"1.5", "'x'", "NULL"}, may: true}, {sql: "", values: []string{"7", "'7x'", "'a'", "NULL"}}, {sql: "blob", values: []string{"'a'", "'b'"}}, {sql: "blob ", values: []string{"x'ff'", "x'00'"}, may: true}, {sql: "real", values: []string{"1.5", "NULL"}, may: true}},
			"payload": {{sql: "text", values: []string{`'{"n":"#"}'`, `' ["#", 1e400, 12345678901234567890] '`, `'{"é":"受😀","n":"#"}'`, "!'not json #'", "!''"}}, {sql: "json", values: []string{`'{"n":"#"}'`}, may: true}, {sql: "", values: []string{`'{"n":"#"}'`}},
				{sql: "blob", bytes: true, values: []string{`CAST('{"n":"#"}' AS BLOB)`, "CAST('#' AS BLOB)"}}, {sql: "blob ", bytes: true, values: []string{`'{"n":"#"}'`}}, {sql: "varchar(400)", values: []string{`'{"n":"#"}'`}}, {sql: "text ", values: []string{`CAST('{"n":"#"}' AS BLOB)`}}},
			"status":       {{sql: "text"}, {sql: "integer", number: true}, {sql: "varchar(20)"}, {sql: "numeric", number: true}, {sql: "text", number: true}, {sql: "", may: true}, {sql: "text COLLATE NOCASE"}},
			"created":      {{sql: "text", values: times}, {sql: "timestamp", values: times, may: true}, {sql: "datetime", values: times, may: true}, {sql: "integer", values: []string{"1769846400000", "0", "-62100000000000", "253402300799999", "1769846400000"}}, {sql: "text ", values: []string{"'2026-01-31 08:00:00'", "~'yesterday'", "'2026-02-01 08:00:00'"}}},
			"error":        {{sql: "text"}, {sql: "varchar(20)"}, {sql: ""}, {sql: "char(20)"}},
			"next_attempt": {{sql: "text", values: []string{"NULL", "'2026-01-31T08:00:00.000Z'", "'0002-01-01T00:00:00.000Z'"}}, {sql: "integer", values: []string{"NULL", "1769846400000", "0"}}},
		},
	}
}

func TestTablesOfAnyTypeInSQLite(t *testing.T) {
	t.Parallel()
	for encoding, most := range map[string]int{"UTF-8": anyTables(9), "UTF-16le": anyTables(3)} {
		t.Run(encoding, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "any.db")
			db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)&_pragma=busy_timeout(10000)")
			must(t, err)
			t.Cleanup(func() { must(t, db.Close()) })
			of := sqliteTypes()
			if encoding != "UTF-8" { // in which a cast to bytes is no text
				of = of.right()
				of.columns["payload"] = []kind{{sql: "text", values: []string{`'{"é":"受😀","n":"#"}'`}}}
			}
			of.before = []string{"PRAGMA encoding = '" + encoding + "'", "PRAGMA journal_mode = wal"}
			everyTable(t, of, db, path, most)
		})
	}
}
