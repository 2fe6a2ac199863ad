package testenv

import (
	"net"
	"sync"
	"testing"
)

// Proxy forwards connections of one test to a server, and can be made to hang or to refuse them.
type Proxy struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu     sync.Mutex
	gate   chan struct{} // closed: answers pass
	refuse bool
	left   int               // bytes that still reach the server; negative: any number
	conns  map[net.Conn]bool // true: what it sends is dropped
}

// StartProxy forwards connections to an address (host:port) until the test ends.
func StartProxy(tb testing.TB, to string) *Proxy {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	open := make(chan struct{})
	close(open)
	p := &Proxy{listener: l, to: to, gate: open, left: -1, conns: map[net.Conn]bool{}}
	p.wg.Go(p.serve)
	tb.Cleanup(func() {
		_ = l.Close() // no connection is made any more
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Address is where it listens, as host:port.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

func (p *Proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).Dial("tcp", p.to)
		if !p.add(err == nil, conn, server) {
			_ = conn.Close() // refused
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		p.wg.Go(func() { p.pipe(server, conn, false) })
		p.wg.Go(func() { p.pipe(conn, server, true) })
	}
}

// pipe copies one direction; answers wait at the gate.
func (p *Proxy) pipe(dst, src net.Conn, answers bool) {
	defer func() { _, _ = dst.Close(), src.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		p.mu.Lock()
		gate, drops := p.gate, p.conns[src]
		p.mu.Unlock()
		if drops && err == nil {
			continue
		}
		pass := n
		if answers {
			<-gate
		} else {
			pass = p.limited(n)
		}
		if _, werr := dst.Write(buf[:pass]); err != nil || werr != nil || pass < n {
			return
		}
	}
}

// limited returns how many of n bytes pass.
func (p *Proxy) limited(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < 0 {
		return n
	}
	pass := min(n, p.left)
	p.left -= pass
	return pass
}

// add keeps connections; false: they are to be refused.
func (p *Proxy) add(reached bool, conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !reached || p.refuse {
		return false
	}
	for _, c := range conns {
		p.conns[c] = false
	}
	return true
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// Forget passes nothing on of the connections that there are, and closes none: as a load balancer that has forgotten them.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = true
	}
}

// Hang holds all answers back until release is called.
func (p *Proxy) Hang() (release func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	p.gate = gate
	p.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

// Down cuts all connections and refuses new ones until up is called.
func (p *Proxy) Down() (up func()) {
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	p.Cut()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.refuse = false
	}
}

// Limit cuts a connection when n more bytes have reached the server, until lift is called.
func (p *Proxy) Limit(n int) (lift func()) {
	set := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.left = n
	}
	set(n)
	return func() { set(-1) }
}
