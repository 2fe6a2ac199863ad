package router

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// Defaults of a [Config].
const (
	DefaultMemory         = 64 << 20
	DefaultLease          = 10 * time.Second
	DefaultSettleInterval = 20 * time.Millisecond
	DefaultDrainTimeout   = 30 * time.Second
)

// Config has the settings that the routes of a process share.
type Config struct {
	// Instance names this process among others. Default: host name and a ULID.
	Instance string

	// Memory bounds the messages on their way, in bytes. Default 64 MiB.
	Memory int64

	// Lease is how long an instance owns its lanes without a heartbeat. Default 10 s.
	Lease time.Duration

	// SettleInterval is how long progress gathers before it is written. Default 20 ms.
	SettleInterval time.Duration

	// DrainTimeout bounds the wait for messages in flight on shutdown. Default 30 s.
	DrainTimeout time.Duration

	// Logger defaults to slog.Default().
	Logger *slog.Logger

	// Redact masks secrets in an address before it is logged or shown. nil: addresses are shown as they are.
	Redact func(address string) string

	// Before is called before lanes of routes are taken whose state is in a store. It returns why those of some cannot be taken now, by the names
	// of the routes. nil: there is nothing to do.
	Before func(ctx context.Context, state adapters.StateStore, routes []string) map[string]error

	// Settled is called after each write of progress, by the goroutine that writes. nil: writes are not timed.
	Settled func(Settle)
}

// Settle is a write of progress.
type Settle = settling.Settle

// WithDefaults replaces zero values by the defaults. The default name of an instance differs each time.
func (c Config) WithDefaults() Config {
	if c.Instance == "" {
		host, _ := os.Hostname() // a ULID alone does
		c.Instance = host + "-" + ulid.Make().String()
	}
	c.Memory = positive(c.Memory, DefaultMemory)
	c.Lease = positive(c.Lease, DefaultLease)
	c.SettleInterval = positive(c.SettleInterval, DefaultSettleInterval)
	c.DrainTimeout = positive(c.DrainTimeout, DefaultDrainTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Redact == nil {
		c.Redact = func(address string) string { return address }
	}
	return c
}

// positive returns v, or the default if v is zero or negative.
func positive[N int | int64 | time.Duration](v, otherwise N) N {
	if v > 0 {
		return v
	}
	return otherwise
}
