// Package api is the HTTP API of a running relay: one operation for each thing that the
// command line tool shows or does, on the [admin.Console] that they share. The OpenAPI
// document is generated from the types here; docs/openapi.json is a copy of it.
package api
