package assembly

import (
	"log/slog"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/log"
	"github.com/outriderhq/outrider/config"
)

// logDestination is the relay's own log.
func logDestination(at site, d *config.LogTo) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) {
		var level slog.Level
		if err := level.UnmarshalText([]byte(d.Level)); err != nil {
			return nil, err
		}
		return log.New(at.log, level), nil
	}}
}

// discardDestination keeps nothing.
func discardDestination(site, *config.Discard) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) { return log.Discard(), nil }}
}

// statisticsDestination counts messages.
func statisticsDestination(at site, d *config.StatisticsTo) DestinationKind {
	return DestinationKind{Open: func() (adapters.Destination, error) {
		var level slog.Level
		if err := level.UnmarshalText([]byte(d.Level)); err != nil {
			return nil, err
		}
		return log.NewStatistics(at.log, level, at.name, d.Every.Std()), nil
	}}
}
