// Package provision finds the programs that the test servers need (PostgreSQL's
// binaries, a Java runtime, Kafka's jars) and can install missing ones: with apt as
// root on Debian and its relatives, otherwise through Maven into a cache folder.
//
// It starts no server (package server does), changes no running one, and never asks
// for another user's rights.
package provision
