// Package server is the HTTP server of a relay.
//
//	GET /livez    200 while the process can answer
//	GET /readyz   200 while it delivers or stands by, 503 with the reason otherwise
//	GET /routes   what this process knows of its routes, as JSON; needs a token when tokens are configured
//	GET /metrics  Prometheus text format; likewise
//
// Every request passes the same guard, also those of added handlers: it accepts only the
// server's own names, refuses requests of other sites' pages, bounds headers,
// bodies, times and connections, and requires a token on all paths but the first two.
//
// It shows counters and addresses with their secrets masked, never payloads.
// Groups, event ids and URLs are not metric labels: they would be unbounded.
package server
