// Package provision finds the programs that the test servers need (PostgreSQL's
// binaries, a Java runtime, Kafka's jars) and, when asked to, installs what is
// missing: with apt as root on Debian and its relatives, otherwise through
// Maven into a cache folder.
//
// What it is not: it starts no server (package server does), touches no running
// one, and never asks for another user's rights.
package provision
