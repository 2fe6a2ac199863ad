package outboxframework

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/config"
)

// The names in the configuration that [Settings.Config] makes.
const (
	Source      = "outbox"    // for outrider.WithPool, (*outrider.Outrider).Wake
	Destination = "listeners" // for outrider.WithListeners
	Route       = "outbox"    // for outrider.WithMiddleware
)

// Settings are those of the framework's OutboxConfig. Make them with [NewSettings], and change what differs:
//
//	cfg, err := outboxframework.NewSettings().SetDispatcherWorkers(8).SetPollerBatchSize(500).Config(os.Getenv("DATABASE_URL"))
//	...
//	relay, err := outrider.New(cfg, outrider.WithListeners(outboxframework.Destination, registry))
type Settings struct {
	dispatcherWorkers int
	hotQueueCapacity  int
	coldQueueCapacity int
	pollerEnabled     bool
	pollerInterval    time.Duration
	pollerBatchSize   int
	pollerSkipRecent  time.Duration
	retryBaseDelay    time.Duration
	retryMaxDelay     time.Duration
	retryMaxAttempts  int
}

// NewSettings returns the framework's defaults: 4 workers, queues of 1,000, a poll of 200 rows every 5 s, 10 attempts
// that are 200 ms to 60 s apart.
func NewSettings() *Settings {
	return &Settings{
		dispatcherWorkers: 4, hotQueueCapacity: 1000, coldQueueCapacity: 1000,
		pollerEnabled: true, pollerInterval: 5 * time.Second, pollerBatchSize: 200, pollerSkipRecent: time.Second,
		retryBaseDelay: 200 * time.Millisecond, retryMaxDelay: time.Minute, retryMaxAttempts: 10,
	}
}

// SetDispatcherWorkers sets how many events are with listeners at once. Default: 4.
func (s *Settings) SetDispatcherWorkers(n int) *Settings { s.dispatcherWorkers = n; return s }

// SetHotQueueCapacity sets how many committed events may wait in memory for a worker, where the client has the relay's HotPath. Events
// without room are left to the poller. 0: there is no hot path. Default: 1000.
func (s *Settings) SetHotQueueCapacity(n int) *Settings { s.hotQueueCapacity = n; return s }

// SetColdQueueCapacity sets how many rows are in memory at once. Default: 1000.
func (s *Settings) SetColdQueueCapacity(n int) *Settings { s.coldQueueCapacity = n; return s }

// SetPollerEnabled must not be given false: a relay without polls would lose what it was not woken for. Default: true.
func (s *Settings) SetPollerEnabled(on bool) *Settings { s.pollerEnabled = on; return s }

// SetPollerInterval sets the time between polls. Default: 5 s.
func (s *Settings) SetPollerInterval(d time.Duration) *Settings { s.pollerInterval = d; return s }

// SetPollerBatchSize sets the most rows of one poll. Default: 200.
func (s *Settings) SetPollerBatchSize(n int) *Settings { s.pollerBatchSize = n; return s }

// SetPollerSkipRecent sets how old a row has to be for the poller to take it, once the hot path is in use. Default: 1 s.
func (s *Settings) SetPollerSkipRecent(d time.Duration) *Settings { s.pollerSkipRecent = d; return s }

// SetRetryBaseDelay sets the pause after the first failed attempt, which doubles with each further one and is multiplied with 0.5 to 1.5. Default: 200 ms.
func (s *Settings) SetRetryBaseDelay(d time.Duration) *Settings { s.retryBaseDelay = d; return s }

// SetRetryMaxDelay sets the longest pause between attempts. Default: 60 s.
func (s *Settings) SetRetryMaxDelay(d time.Duration) *Settings { s.retryMaxDelay = d; return s }

// SetRetryMaxAttempts sets after how many failed attempts an event is DEAD. Default: 10.
func (s *Settings) SetRetryMaxAttempts(n int) *Settings { s.retryMaxAttempts = n; return s }

// Config returns the configuration of a relay that delivers the table outbox_event of a database to listeners: of a PostgreSQL
// database (postgres://...), of MariaDB or MySQL (mariadb://..., mysql://...), or of a SQLite file (sqlite:PATH). The error names the settings that cannot be used.
func (s *Settings) Config(databaseURL string) (*config.Config, error) {
	if !s.pollerEnabled {
		return nil, errors.New("outboxframework: pollerEnabled is false: a relay without polls would lose what it was not woken for; do not run it instead")
	}
	if databaseURL == "" {
		return nil, errors.New("outboxframework: the URL of the database is empty; give postgres://..., mysql://..., or sqlite:PATH")
	}
	const layout = "outbox-framework"
	poll := config.Poll{Min: config.Duration(s.pollerInterval), Max: config.Duration(s.pollerInterval), Batch: s.pollerBatchSize}
	table := config.TableSource{Layout: layout, Poll: poll, Claims: config.Claims{InMemory: s.coldQueueCapacity}}
	var source config.Source = &config.Postgres{URL: config.NewSecretURL(databaseURL), TableSource: table}
	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		source = &config.SQLite{Path: path, TableSource: table}
	}
	if scheme, _, _ := strings.Cut(databaseURL, "://"); scheme == "mysql" || scheme == "mariadb" {
		source = &config.MySQL{URL: config.NewSecretURL(databaseURL), TableSource: table}
	}
	if s.hotQueueCapacity < 0 || s.pollerSkipRecent < 0 {
		return nil, errors.New("outboxframework: hotQueueCapacity and pollerSkipRecent must not be negative")
	}
	cfg, err := config.Build(config.Config{
		Sources:      map[string]config.Source{Source: source},
		Destinations: map[string]config.Destination{Destination: &config.Listeners{Workers: s.dispatcherWorkers}},
		Routes: []config.Route{{Name: Route, From: Source, Targets: []string{Destination}, Middleware: []config.Middleware{
			&config.Poison{},
			&config.Retry{Attempts: s.retryMaxAttempts, Base: config.Duration(s.retryBaseDelay), Max: config.Duration(s.retryMaxDelay), Jitter: 0.5},
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("outboxframework: %w", err)
	}
	if src, ok := cfg.Sources[Source].(*config.Postgres); ok { // after Build, which takes a zero for the default
		src.HotPath = config.HotPath{Queue: s.hotQueueCapacity, SkipRecent: config.Duration(s.pollerSkipRecent)}
	}
	return cfg, nil
}
