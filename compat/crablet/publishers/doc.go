// Package publishers answers below /api/outbox as the management of Crablet's outbox does, for sources with layout crablet: the same paths,
// JSON and statuses, from the same table, so that scripts and dashboards go on working. As in Crablet the paths are about the topic
// "default"; with ?topic=NAME they are about another one. Where "default" has no such publisher, or none at all, they are about all topics.
//
// The server in front of it authenticates the caller. Reading needs the role read, changes the role operate.
package publishers
