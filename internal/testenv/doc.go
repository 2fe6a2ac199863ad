// Package testenv gives tests real servers.
//
// [Postgres], [MySQL], [Kafka] and [Redis] use the servers that all tests share, named by the
// environment variables [EnvPostgres], [EnvMySQL], [EnvKafka] and [EnvRedis]; the command
// internal/testenv/cmd/testenv (`make test`) starts them and sets the
// variables. [StartPostgres], [StartMariaDB], [StartKafka] and [StartRedis] start a private server for a test
// that stops, kills and restarts it, and [StartProxy] stands for a network that hangs or is cut. [Chromium] is a browser for tests of pages.
//
// All of them skip the test under -short. Where a server is missing they skip
// it with a reason, and fail it when CI=true: there a skipped test would pass
// for a tested one.
//
// What it is not: it installs nothing (package provision does, for the
// command), and programs that are no tests use package server.
package testenv
