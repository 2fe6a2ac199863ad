package httpx

import (
	"net/http"
	"time"
)

// HTTP2 has connections of HTTP/2 asked whether they live when they have been silent during requests with a timeout. A request that times out
// does not end them, and without an answer of the other side TCP gives them up after a quarter of an hour: a load balancer that has forgotten
// one would be a receiver that is down. The first request on it fails before its timeout, and the next one gets another connection.
func HTTP2(timeout time.Duration) *http.HTTP2Config {
	third := min(max(timeout/3, time.Second), 10*time.Second)
	return &http.HTTP2Config{SendPingTimeout: third, PingTimeout: third}
}

// Bounded closes an answer that is the connection itself: what follows the status 101 ends with neither the request nor its context.
func Bounded(resp *http.Response) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close() // only the status matters
		resp.Body = http.NoBody
	}
}
