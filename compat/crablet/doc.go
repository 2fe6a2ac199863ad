// Package crablet turns the configuration of Crablet's outbox, the keys crablet.outbox.* of a .properties or YAML file, into one of
// Outrider's that does the same: a route for each pair of a topic and a publisher. It copies no secret.
//
// Publishers are classes of the application, of which the file knows the names only. LogPublisher and StatisticsPublisher are destinations
// of Outrider; any other becomes a destination with type publisher, which the embedding program supplies or the user replaces.
package crablet
