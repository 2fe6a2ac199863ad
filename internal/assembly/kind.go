package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// The registries of technologies, by the type of their section in the configuration.
// A new technology is a line here and a file in this package.
var (
	sourceKinds = map[string]func(site, any) SourceKind{
		"postgres":   entry(postgresSource),
		"sqlite":     entry(sqliteSource),
		"mongodb":    entry(mongoSource),
		"mysql":      entry(mysqlSource),
		"http":       entry(httpSource),
		"kafka":      entry(kafkaSource),
		"amqp":       entry(amqpSource),
		"nats":       entry(natsSource),
		"redis":      entry(redisSource),
		"subscriber": entry(subscriberSource),
	}
	destinationKinds = map[string]func(site, any) DestinationKind{
		"kafka":      entry(kafkaDestination),
		"amqp":       entry(amqpDestination),
		"redis":      entry(redisDestination),
		"nats":       entry(natsDestination),
		"http":       entry(httpDestination),
		"webhook":    entry(webhookDestination),
		"river":      entry(riverDestination),
		"sql":        entry(sqlDestination),
		"log":        entry(logDestination),
		"statistics": entry(statisticsDestination),
		"discard":    entry(discardDestination),
		"listeners":  entry(listenersDestination),
		"publisher":  entry(publisherDestination),
	}
	middlewareKinds = map[string]func(layerSite, any) middlewareKind{
		"poison":   entry(poisonLayer),
		"retry":    entry(retryLayer),
		"timeout":  entry(timeoutLayer),
		"throttle": entry(throttleLayer),
		"dedupe":   entry(dedupeLayer),
		"breaker":  entry(breakerLayer),
		"tracing":  entry(tracingLayer),
		"metrics":  entry(metricsLayer),
	}

	// databases are the kinds of databases, with all that does not belong to one source. A location of state belongs to the first one
	// whose scheme it has; that of a file has none.
	databases = []database{postgresDatabase, mysqlDatabase, mongoDatabase, sqliteDatabase}
)

// site is a source or destination of the configuration.
type site struct {
	*Builder
	name string
}

// SourceKind has what a technology can do with one source of the configuration. A
// field that is nil or zero: it cannot do that. A subscriber has no table that could be
// created.
type SourceKind struct {
	// Open connects and returns what routes read, once for all routes of the source.
	// It is checked afterwards.
	Open func(context.Context) (Feed, error)

	Log      bool // an append-only table, read by cursor
	Queue    bool // tables whose rows carry a status of their own
	Hot      bool // rows that the embedding program has committed can be delivered from memory
	Read     bool // they cannot, and the table is read right after the commit
	Supplied bool // the embedding program supplies it by an option
	Pools    bool // its connections can be those of a pool that the program has

	Leader bool                                      // one instance at a time works it
	Lock   func(context.Context) (leaderLock, error) // what that instance has to hold as well

	Init      func(context.Context) ([]string, error)                              // creates what is missing; a sentence for each thing done
	Adds      func(context.Context) ([]string, error)                              // what Init will add to tables that are there; a sentence for each
	InitSQL   func(to Grantees) string                                             // the same as statements, with grants
	Indexes   func(ctx context.Context, onProgress func(string)) ([]string, error) // creates missing indexes on a table of others
	Wake      func(context.Context) ([]string, error)                              // creates the triggers by which writers wake the relay
	WakeSQL   func() string                                                        // the same as statements
	Publish   func(context.Context, []outbox.Envelope) error                       // writes messages in a transaction of its own
	Progress  func(context.Context) (adapters.ProgressTable, error)                // the source system's table of progress, for its operators
	Retention *RetentionSettings                                                   // which rows are removed, and when
}

// leaderLock is a leader's lock with the connection that it has to itself.
type leaderLock interface {
	adapters.LeaderLock
	Close()
}

// DestinationKind has what a technology can do with one destination.
type DestinationKind struct {
	Open     func() (adapters.Destination, error)
	Deep     bool                                 // it is an adapters.DepthCounter
	Examine  func() (adapters.Destination, error) // opens it for looking only; nil: like Open
	Supplied string                               // the option by which the embedding program supplies it, if it does; then Open is nil where it did not
}

// StateKind has what a technology can do with a state store at one location.
type StateKind struct {
	Key     string // the location in the one form that all of its names have
	Pools   bool   // its connections can be those of a pool that the program has
	Exists  func() error
	Open    func(context.Context) (adapters.OperatorStore, error)
	InitSQL func(to Grantees) (string, error)
}

// layerSite is a middleware in the stack of a route that is being made.
type layerSite struct {
	*Builder
	parts *Parts
	route string
	from  string // its source
}

// middlewareKind is one layer of a route.
type middlewareKind struct {
	// make makes it; nil without an error: it would do nothing.
	make func(context.Context) (middleware.Layer, error)

	attempts int    // how often a message may fail; 0: it sets no limit
	poison   string // the destination that dead messages go to; empty: none
}

// entry is the entry of a registry for sections of type S.
func entry[At any, S comparable, Kind any](of func(At, S) Kind) func(At, any) Kind {
	return func(at At, section any) (k Kind) {
		var none S
		if s, ok := section.(S); ok && s != none {
			return of(at, s)
		}
		return k
	}
}

// Source returns what can be done with a source; nothing, if it is not configured or its
// type is not built into this program.
func (b *Builder) Source(name string) (k SourceKind) {
	if s := b.Config.Sources[name]; s != nil {
		if of := sourceKinds[s.Kind()]; of != nil {
			return of(site{b, name}, s)
		}
	}
	return k
}

// Destination returns what can be done with a destination, like [Builder.Source].
func (b *Builder) Destination(name string) (k DestinationKind) {
	if d := b.Config.Destinations[name]; d != nil {
		if of := destinationKinds[d.Kind()]; of != nil {
			return of(site{b, name}, d)
		}
	}
	return k
}
