package outrider

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router"
)

// ErrCutOff is what [Outrider.Run] returns, by errors.Is, when `drain_timeout` was
// over before everything under way had ended. The error names routes and lanes,
// and how many messages were under way: whether those arrived is not known, and
// they may be delivered again. Everything else is finished and written down,
// unless the error says otherwise as well.
var ErrCutOff = router.ErrCutOff

// ConfigErrors is everything that is wrong with a configuration; the error of
// [LoadConfig] and [ParseConfig] unless the file could not be read.
type ConfigErrors = config.Errors

// NewConfig completes and checks a configuration that was made in Go, by the rules
// of the file; see [config.Build].
//
//	cfg, err := outrider.NewConfig(outrider.Config{
//		Sources:      map[string]config.Source{"app": &config.Postgres{URL: config.NewSecretURL(url)}},
//		Destinations: map[string]config.Destination{"bus": &config.Kafka{Brokers: brokers, Topic: "orders"}},
//		Routes:       []config.Route{{Name: "orders", From: "app", Targets: []string{"bus"}}},
//	})
func NewConfig(cfg Config) (*Config, error) { return config.Build(cfg) }

// ConfigError is one of [ConfigErrors], or a warning of [Config.Warnings].
type ConfigError = config.Error

// DefaultAdminListen is where `outrider run` listens unless the file says otherwise.
const DefaultAdminListen = config.DefaultAdminListen

// RoutesFor returns the names of the routes that read a source and match a message,
// in the order of the configuration.
func RoutesFor(cfg *Config, source string, e *outbox.Envelope) []string {
	names := []string{}
	for _, r := range cfg.Routes {
		if r.From == source && r.Match.Matches(config.Event{Type: e.Type(), AggregateType: e.AggregateType(), Tenant: e.Tenant(), Tags: e.Tags()}) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Schema returns the JSON Schema of the configuration file, for editors.
func Schema() []byte { return config.Schema() }

// ExampleConfig is a complete configuration file to start from. It needs
// DATABASE_URL and API_TOKEN in the environment.
func ExampleConfig() string { return config.Example }

// ParseRate reads a rate as the configuration writes it, such as 100/s or 30/m,
// and returns it per second.
func ParseRate(text string) (float64, error) {
	r, err := config.ParseRate(text)
	return r.PerSecond(), err
}

// ParseDuration reads a span of time as the configuration writes it, such as
// 90s or 30d.
func ParseDuration(text string) (time.Duration, error) {
	d, err := config.ParseDuration(text)
	return d.Std(), err
}

// NewInstanceName makes a name for [WithInstance] that no other process has:
// the host's name and a ULID.
func NewInstanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "-" + ulid.Make().String()
}

// Build says what this program was built from.
type Build struct {
	Version string `json:"version"`          // of the module; "(devel)" in a work tree without version
	Commit  string `json:"commit,omitempty"` // revision, if the build knew it
	Dirty   bool   `json:"dirty,omitempty"`  // the work tree had changes
	Go      string `json:"go"`               // version of Go, with system and architecture
}

// Version returns what this program was built from. In a program that embeds
// Outrider the version is that of the module it requires.
func Version() Build {
	b := Build{Version: "(devel)", Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	const module = "github.com/outriderhq/outrider"
	if info.Main.Path == module {
		b.Version = cmp.Or(info.Main.Version, b.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Dirty = s.Value == "true"
			}
		}
		return b
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			b.Version = dep.Version
		}
	}
	return b
}

// databaseExists refuses the path of a SQLite file that is not there: opening it
// would leave an empty database where somebody mistyped a name.
func databaseExists(location string) error {
	if inPostgres(location) {
		return nil
	}
	name, err := sqlite.File(strings.TrimPrefix(location, "sqlite:"))
	if err != nil || name == "" {
		return err
	}
	if _, err := os.Stat(name); err != nil {
		return fmt.Errorf("the database cannot be opened: %w; `outrider init` creates it", err)
	}
	return nil
}
