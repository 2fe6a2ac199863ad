// Package pg is the ground that the packages of the PostgreSQL adapter stand on:
// connections and their encryption, search path and names, errors with their fixes,
// grants, what the catalogue says of a table, the examination of a server, and the
// decoding of rows from PostgreSQL's binary form.
package pg
