// Package outrider runs a transactional-outbox relay: it reads messages that
// applications wrote in their own transactions and delivers them, in order per
// group and without loss, through Watermill middleware to Kafka, HTTP and others.
//
// Publishing is package outbox; this package runs the relay:
//
//	cfg, err := outrider.LoadConfig("outrider.yaml")
//	...
//	relay, err := outrider.New(cfg,
//	    outrider.WithMiddleware("orders", middleware.CorrelationID))
//	...
//	err = relay.Run(ctx) // until ctx ends, then drains
//
// Options supply parts that the configuration only names: [WithDestination] a
// destination of type publisher, [WithListeners] functions for one of type listeners, [WithSource] a source of type subscriber, and
// [WithPool] a pgxpool.Pool whose credentials, TLS and hooks connections then use.
// To make a configuration in Go, see package config; to create tables and run the
// operator's commands, package admin.
package outrider
