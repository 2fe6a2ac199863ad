package config

import (
	"reflect"
	"testing"
	"time"
)

func TestRetentionIsOffUnlessItIsThere(t *testing.T) {
	t.Parallel()
	text := `
sources:
  off: {type: postgres, url: "postgres://127.0.0.1/app"}
  rows: {type: postgres, url: "postgres://127.0.0.1/app", table: b, retention: {}}
  parts: {type: postgres, url: "postgres://127.0.0.1/app", table: c, retention: {mode: partitions, keep: 0s, partition_rows: 20000}}
  file: {type: sqlite, path: app.db, retention: {keep: 30d}}
destinations:
  out: {type: discard}
routes:
  all: {from: off, to: out}
`
	cfg, err := Parse("test.yaml", []byte(text), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	day, minute, hour := Duration(24*time.Hour), Duration(time.Minute), Duration(time.Hour)
	for name, want := range map[string]*Retention{
		"off":   nil,
		"rows":  {Mode: "delete", Keep: day, Every: minute, Batch: 10_000, PartitionRows: 1_000_000, WarnAfter: hour},
		"parts": {Mode: "partitions", Every: minute, Batch: 10_000, PartitionRows: 20_000, WarnAfter: hour},
	} {
		if s, ok := cfg.Sources[name].(*Postgres); !ok || !reflect.DeepEqual(s.Retention, want) {
			t.Errorf("%s: got %+v, want %+v", name, s.Retention, want)
		}
	}
	want := &SQLiteRetention{Keep: 30 * day, Every: minute, Batch: 1000, WarnAfter: hour}
	if s, ok := cfg.Sources["file"].(*SQLite); !ok || !reflect.DeepEqual(s.Retention, want) {
		t.Errorf("file: got %+v, want %+v", s.Retention, want)
	}
}
