// Package outrider is the public face of Outrider, a transactional-outbox relay:
// it reads messages that applications wrote in their own transactions and
// delivers them, in order per group, losing nothing, through Watermill
// middleware to Kafka, HTTP and others.
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
// What the configuration names, options can supply: a destination of type
// publisher is given with [WithDestination], a source of type subscriber with
// [WithSource]. A program that has a pgxpool.Pool gives it with [WithPool], for
// connections with the same credentials, TLS and hooks. Package config makes a
// configuration in Go; package admin creates tables and does what operators do.
package outrider
