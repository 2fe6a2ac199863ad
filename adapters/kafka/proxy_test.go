package kafka

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// proxy stands between a destination and its broker, and can be made to hang
// or to refuse connections.
type proxy struct {
	net.Listener
	to string
	wg sync.WaitGroup

	mu     sync.Mutex
	gate   chan struct{} // closed: answers pass
	refuse bool
	conns  map[net.Conn]struct{}
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := make(chan struct{})
	close(open)
	p := &proxy{Listener: l, to: to, gate: open, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

// through makes every client of the destination connect through the proxy,
// whatever address the broker advertises.
func (p *proxy) through(t *testing.T, d *Destination) *Destination {
	t.Helper()
	d.pool.close()
	d.pool = newPool(append(d.pool.opts, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, p.Addr().String())
	})), d.cfg.Clients)
	return d
}

func (p *proxy) serve() {
	for {
		conn, err := p.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse := p.refuse
		p.mu.Unlock()
		server, err := net.Dial("tcp", p.to)
		if refuse || err != nil {
			_ = conn.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		p.add(conn, server)
		p.wg.Go(func() { p.pipe(server, conn, false) })
		p.wg.Go(func() { p.pipe(conn, server, true) })
	}
}

// pipe copies one direction; answers wait at the gate.
func (p *proxy) pipe(dst, src net.Conn, answers bool) {
	defer func() { _, _ = dst.Close(), src.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if answers {
			p.mu.Lock()
			gate := p.gate
			p.mu.Unlock()
			<-gate
		}
		if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (p *proxy) add(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// hang holds all answers back until release is called.
func (p *proxy) hang() (release func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	p.gate = gate
	p.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

// down cuts all connections and lets no new ones through until up is called.
func (p *proxy) down() (up func()) {
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	p.cut()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.refuse = false
	}
}
