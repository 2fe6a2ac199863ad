package measure

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Machine describes the machine and the servers of a measurement.
type Machine struct {
	Date      string            `json:"date"`
	Commit    string            `json:"commit"` // of the working tree; "-dirty" if that differs
	Hardware  string            `json:"hardware"`
	System    string            `json:"system"`
	Postgres  string            `json:"postgres"` // its version
	Settings  map[string]string `json:"settings"` // of PostgreSQL
	Kafka     string            `json:"kafka"`
	Libraries string            `json:"libraries,omitempty"`
}

// Line says how figures were made.
func (m *Machine) Line() string {
	settings := make([]string, 0, len(m.Settings))
	for _, name := range slices.Sorted(maps.Keys(m.Settings)) {
		settings = append(settings, name+" "+m.Settings[name])
	}
	return fmt.Sprintf("Made %s at commit %s. PostgreSQL %s with %s; Kafka %s; %s; %s; %s",
		m.Date, m.Commit, m.Postgres, strings.Join(settings, ", "), m.Kafka, m.Hardware, m.System, m.Libraries)
}

// libraries are the modules whose versions are reported.
var libraries = []string{
	"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-sql/v3", "github.com/ThreeDotsLabs/watermill-kafka/v3",
	"github.com/IBM/sarama", "github.com/jackc/pgx/v5", "github.com/twmb/franz-go",
}

// DescribeMachine describes this machine and the servers.
func DescribeMachine(ctx context.Context, s *Servers, cpus []int) (Machine, error) {
	m := Machine{
		Commit:    Commit(ctx, "."),
		Date:      time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Hardware:  hardware(cpus),
		System:    kernel() + ", " + runtime.Version(),
		Libraries: versions(),
	}
	var err error
	if m.Postgres, m.Settings, err = s.describePostgres(ctx); err != nil {
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

// settings are those of PostgreSQL that a reader of figures asks for.
var settings = []string{"fsync", "full_page_writes", "shared_buffers", "synchronous_commit", "wal_level"}

func (s *Servers) describePostgres(ctx context.Context) (version string, with map[string]string, err error) {
	err = s.On(ctx, func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, `SELECT current_setting('server_version'), jsonb_object_agg(name, current_setting(name))
			FROM unnest($1::text[]) name`, settings).Scan(&version, &with)
	})
	return version, with, err
}

// Commit describes the commit that is checked out in a folder.
func Commit(ctx context.Context, folder string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", folder, "describe", "--always", "--dirty", "--exclude=*").Output() //nolint:gosec // our own folders
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
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
			return fmt.Sprintf("%s, %d broker(s), topics of %d partitions", broker.VersionGuess(), len(all), partitions), nil
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
