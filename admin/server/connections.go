package server

import (
	"container/list"
	"net"
	"net/http"
	"slices"
	"sync"
)

// pool is a listener with room for a number of connections. When all are taken, a new connection takes the place of the one that
// has been without a request in progress for the longest time, so clients that hold connections keep out no others. Fewer requests are
// answered at a time than there are places, and probes in addition: a probe never waits for other requests.
type pool struct {
	net.Listener
	most  int
	turns chan struct{} // of requests that are no probes

	mu   sync.Mutex
	open int
	idle list.List // places without a request in progress, the longest first
}

// connection is one that a pool has accepted.
type connection struct {
	net.Conn
	of   *pool
	idle *list.Element // nil: a request is in progress
	gone bool
}

// connectionKey is where a request's context has its place.
type connectionKey struct{}

func newPool(l net.Listener, lim limits) *pool {
	return &pool{Listener: l, most: lim.connections + lim.probes, turns: make(chan struct{}, lim.connections)}
}

// Accept implements [net.Listener].
func (p *pool) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := p.idle.Front(); first != nil && p.open >= p.most { // nil: all are probes and requests in progress, which end
		c := first.Value.(*connection) //nolint:forcetypeassert // nothing else is in it
		c.leaveLocked()
		_ = c.Conn.Close() // no request of it is in progress
	}
	c := &connection{Conn: conn, of: p}
	c.idle = p.idle.PushBack(c)
	p.open++
	return c, nil
}

func (c *connection) leaveLocked() {
	if c.gone {
		return
	}
	c.gone = true
	c.of.open--
	if c.idle != nil {
		c.of.idle.Remove(c.idle)
	}
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.of.mu.Lock()
	c.leaveLocked()
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// busy notes whether a request is in progress.
func (c *connection) busy(is bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	switch {
	case c.gone:
	case is:
		c.of.idle.Remove(c.idle)
		c.idle = nil
	default:
		c.idle = c.of.idle.PushBack(c)
	}
}

// serve gives requests their turns.
func (p *pool) serve(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(open, r.URL.Path) {
			select {
			case p.turns <- struct{}{}:
				defer func() { <-p.turns }()
			case <-r.Context().Done():
				return
			}
		}
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			c.busy(true)
			defer c.busy(false)
		}
		h.ServeHTTP(w, r)
	})
}
