// Package pg is the ground that the packages of the PostgreSQL adapter stand on:
// connections and their encryption, search path and names, errors with their fixes,
// grants, what the catalogue says of a table, and the examination of a server.
package pg
