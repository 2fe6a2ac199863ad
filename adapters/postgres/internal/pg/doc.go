// Package pg has what the packages of the PostgreSQL adapter share:
// connections and their encryption, search path and names, errors with their fixes,
// grants, what the catalogue says of a table, and the examination of a server.
package pg
