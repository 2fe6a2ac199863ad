package measure

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Machine describes the machine and the servers of a measurement, for the reader.
type Machine struct {
	Date      string `json:"date"`
	Hardware  string `json:"hardware"`
	System    string `json:"system"`
	Postgres  string `json:"postgres"`
	Kafka     string `json:"kafka"`
	Libraries string `json:"libraries"`
}

// Lines describe the machine, one fact each.
func (m *Machine) Lines() []string {
	return []string{m.Date, m.Hardware, m.System, m.Postgres, m.Kafka, m.Libraries}
}

// libraries are the modules whose versions are reported.
var libraries = []string{
	"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-sql/v3", "github.com/ThreeDotsLabs/watermill-kafka/v3",
	"github.com/IBM/sarama", "github.com/jackc/pgx/v5", "github.com/twmb/franz-go",
}

// DescribeMachine describes this machine and the servers.
func DescribeMachine(ctx context.Context, s *Servers, cpus []int) (Machine, error) {
	m := Machine{
		Date:      time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Hardware:  hardware(cpus),
		System:    kernel() + ", " + runtime.Version(),
		Libraries: versions(),
	}
	var err error
	if m.Postgres, err = s.describePostgres(ctx); err != nil {
		return m, fmt.Errorf("%s: %w", envPostgres, err)
	}
	if m.Kafka, err = s.describeKafka(ctx); err != nil {
		return m, fmt.Errorf("%s: %w", envKafka, err)
	}
	return m, nil
}

// hardware describes the processors and the memory that the relays may use. The
// servers that `make bench` starts have the same, apart from -cpus.
func hardware(cpus []int) string {
	text := fmt.Sprintf("%s, %d processors", processor(), max(processors(), runtime.NumCPU()))
	switch {
	case len(cpus) > 0:
		text += fmt.Sprintf(", relays and harness pinned to %v (not the servers)", cpus)
	case runtime.NumCPU() < processors():
		text += fmt.Sprintf(", %d of them for the harness, the relays and servers started with them", runtime.NumCPU())
	}
	if b := memoryBytes(); b > 0 {
		text += fmt.Sprintf(", %.0f GiB of memory", float64(b)/(1<<30))
	}
	if l := load(); l != "" {
		text += ", load average at the start " + l
	}
	return text
}

func (s *Servers) describePostgres(ctx context.Context) (string, error) {
	db, err := pgx.Connect(ctx, s.postgres.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	var text string
	err = db.QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') ||
		string_agg(format(', %s %s', name, current_setting(name)), '' ORDER BY name)
		FROM unnest('{fsync,synchronous_commit,shared_buffers}'::text[]) name`).Scan(&text)
	return text, err
}

func (s *Servers) describeKafka(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, CleanupLimit)
	defer cancel()
	all, err := s.admin.ApiVersions(ctx)
	if err != nil {
		return "", err
	}
	for _, broker := range all.Sorted() {
		if broker.Err == nil {
			return fmt.Sprintf("Kafka %s, %d broker(s), topic of %d partitions", broker.VersionGuess(), len(all), partitions), nil
		}
		err = broker.Err
	}
	return "", err
}

// versions lists the libraries with the versions that were built in.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var out []string
	for _, name := range libraries {
		for _, dep := range info.Deps {
			if dep.Path == name {
				out = append(out, strings.TrimPrefix(name, "github.com/")+" "+dep.Version)
			}
		}
	}
	return strings.Join(out, ", ")
}
