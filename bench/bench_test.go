package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv"
)

// Every peer in both scenarios, with few rows: the figures mean nothing, but
// what is measured is verified.
func TestEveryPeerDeliversAndIsMeasured(t *testing.T) {
	url := testenv.Postgres(t)
	testenv.Kafka(t)
	t.Setenv(envPostgres, url)
	profile := filepath.Join(t.TempDir(), "cpu.pprof")
	var out, progress bytes.Buffer
	status := run(t.Context(), []string{"-rows", "2000", "-backlog", "3000", "-stock-rows", "500", "-runs", "2", "-groups", "50",
		"-scenario", "all", "-json", "-profile", profile}, &out, &progress)
	if status != 0 {
		t.Fatalf("status %d: %s", status, &progress)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	type line struct {
		peer string
		rows int
	}
	var got []line
	for _, s := range r.Scenarios {
		for _, res := range s.Results {
			got = append(got, line{res.Peer, res.Rows})
			if len(res.Rates) != 2 || res.Rate <= 0 || res.CPU <= 0 || res.Peak <= 1<<20 {
				t.Errorf("%s: %s was not measured: %+v", s.Name, res.Peer, res)
			}
		}
	}
	if want := []line{{"floor", 2000}, {"outrider", 2000}, {"stock", 500}, {"outrider", 2000}, {"outrider", 3000}}; !slices.Equal(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("the profile: %v, %v", info, err)
	}
	if !strings.HasPrefix(r.Machine.Postgres, "PostgreSQL 1") || !strings.HasPrefix(r.Machine.Kafka, "Kafka v") {
		t.Errorf("servers: %+v", r.Machine)
	}
}

// garbling is a floor whose table changes a row after the harness has looked at
// it, so that the record that arrives is not the one expected.
type garbling struct{ floor }

func (garbling) rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, `TRUNCATE bench_cursor; INSERT INTO bench_cursor VALUES (0);
		UPDATE bench_floor SET payload = '{"changed": true}' WHERE position = 7`)
	return err
}

func TestARunThatIsNotCleanDoesNotCount(t *testing.T) {
	url := testenv.Postgres(t)
	testenv.Kafka(t)
	t.Setenv(envPostgres, url)
	o, err := parseOptions([]string{"-runs", "1"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	st, err := newStage(t.Context(), s, entry{garbling{}, 100}, o)
	if err != nil {
		t.Fatal(err)
	}
	b := bench{servers: s, options: o, progress: io.Discard}
	_, err = b.measure(t.Context(), st)
	if err == nil || !strings.Contains(err.Error(), "of 100 records: lost 1, duplicates 0, out of order 0, foreign 1") {
		t.Errorf("got %v", err)
	}
	if err := st.close(); err != nil {
		t.Error(err)
	}
}

func TestARelayThatEndsIsTold(t *testing.T) {
	url := testenv.Postgres(t)
	brokers := testenv.Kafka(t)
	p, err := start(t.Context(), job{Peer: "floor", Postgres: url, Brokers: brokers, Topic: "none"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-p.done // its cursor table does not exist
	if _, err := p.stop(); err == nil || !strings.Contains(err.Error(), "the process of floor ended") || !strings.Contains(err.Error(), "bench_cursor") {
		t.Errorf("got %v", err)
	}
}
