// Package admin is the HTTP server of a running relay: health for orchestrators
// and Prometheus metrics.
//
//	GET /livez    200 while the process can answer
//	GET /readyz   200 while it delivers or stands by, 503 with the reason otherwise
//	GET /routes   what this process knows of its routes, as JSON; needs a token when tokens are configured
//	GET /metrics  Prometheus text format; likewise
//
// Every request passes the same guard, those of later handlers too: only names
// that are the server's, no requests of other sites' pages, bounded headers,
// bodies, times and connections, and a token on all paths but the first two.
//
// It shows counters and addresses with their secrets masked, never payloads.
// Groups, event ids and URLs are no metric labels: they would be unbounded.
package admin
