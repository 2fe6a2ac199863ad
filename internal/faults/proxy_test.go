package faults_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy passes PostgreSQL's protocol on and counts the statements in it, so
// that they are counted where they arrive and nowhere else.
type proxy struct {
	listener net.Listener
	server   string
	wg       sync.WaitGroup

	mu         sync.Mutex
	conns      []net.Conn
	statements int
}

// countStatements starts a proxy in front of a database (without TLS) and
// returns it with the URL to use instead.
func countStatements(t *testing.T, database string) (p *proxy, through string) {
	t.Helper()
	u, err := url.Parse(database)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p = &proxy{listener: l, server: u.Host}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statements
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.wg.Go(func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
		p.wg.Go(func() {
			p.pass(server, client)
			_ = server.Close()
		})
	}
}

// pass copies what the client sends, message by message. The first one, which
// opens the session, has no type.
func (p *proxy) pass(server io.Writer, client io.Reader) {
	header := make([]byte, 5)
	for began := false; ; began = true {
		h := header
		if !began {
			h = header[1:]
		}
		if _, err := io.ReadFull(client, h); err != nil {
			return
		}
		if began && (header[0] == 'Q' || header[0] == 'E') { // a simple query, an execution
			p.mu.Lock()
			p.statements++
			p.mu.Unlock()
		}
		if _, err := server.Write(h); err != nil {
			return
		}
		body := int64(binary.BigEndian.Uint32(header[1:])) - 4
		if _, err := io.CopyN(server, client, body); err != nil {
			return
		}
	}
}
