// Package server starts, stops, kills and restarts real PostgreSQL and Kafka
// servers on loopback ports, each with a data folder of its own under the
// temporary folder. Functions return errors, so that commands (the test runner,
// the benchmark) can use them as well as tests.
//
// It finds and installs no programs (package provision does), and does not import
// package testing (package testenv wraps it for tests). It stops only processes that
// it started, by their id.
package server
