// Package api is the HTTP API of a running relay: one operation for each thing that the
// command line tool shows or does, on the console that they share. The OpenAPI
// document is generated from the types here; openapi.json is a copy of it.
package api
