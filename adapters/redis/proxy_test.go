package redis

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy forwards connections to a server, and breaks them.
type proxy struct {
	net.Listener
	to string
	wg sync.WaitGroup

	left  atomic.Int64 // bytes that still reach the server, before every connection is cut
	deaf  atomic.Bool  // answers are dropped, and the connection cut
	conns sync.Map
}

const unlimited = 1 << 40

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to}
	p.left.Store(unlimited)
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		conn, err := p.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = conn.Close()
			continue
		}
		p.conns.Store(conn, server)
		p.wg.Go(func() { p.pipe(server, conn, p.request) })
		p.wg.Go(func() { p.pipe(conn, server, p.answer) })
	}
}

// pipe copies one direction until keep cuts it: of n bytes, it says how many pass.
func (p *proxy) pipe(dst, src net.Conn, keep func(n int) int) {
	defer func() { _, _ = dst.Close(), src.Close() }()
	buf := make([]byte, 4<<10)
	for {
		n, err := src.Read(buf)
		pass := keep(n)
		if _, werr := dst.Write(buf[:pass]); err != nil || werr != nil || pass < n {
			return
		}
	}
}

func (p *proxy) request(n int) int {
	if left := p.left.Add(-int64(n)); left < 0 {
		return max(0, n+int(left))
	}
	return n
}

func (p *proxy) answer(n int) int {
	if p.deaf.Load() {
		return 0
	}
	return n
}

// cut closes all connections.
func (p *proxy) cut() {
	p.conns.Range(func(conn, server any) bool {
		_, _ = conn.(io.Closer).Close(), server.(io.Closer).Close()
		p.conns.Delete(conn)
		return true
	})
}
