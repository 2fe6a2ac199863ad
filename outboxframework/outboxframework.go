// Package outboxframework is the former place of package compat/outboxframework.
//
// Deprecated: import github.com/outriderhq/outrider/compat/outboxframework. The next version has only that package.
package outboxframework

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/compat/outboxframework"
)

// The names in the configuration that [Settings.Config] makes.
const (
	Source      = outboxframework.Source
	Destination = outboxframework.Destination
	Route       = outboxframework.Route
)

type (
	// Settings is [outboxframework.Settings].
	Settings = outboxframework.Settings
	// MetricsExporter is [outboxframework.MetricsExporter].
	MetricsExporter = outboxframework.MetricsExporter
	// Noop is [outboxframework.Noop].
	Noop = outboxframework.Noop
)

// NewSettings is [outboxframework.NewSettings].
func NewSettings() *Settings { return outboxframework.NewSettings() }

// Export is [outboxframework.Export].
func Export(ctx context.Context, stats func() []adapters.RouteStats, to MetricsExporter, every time.Duration) {
	outboxframework.Export(ctx, stats, to, every)
}
