package statestore_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
)

// cutter is a network between a store and its server.
type cutter struct {
	url    string
	server string

	mu     sync.Mutex
	silent bool          // nothing goes to or fro any more, and connections stay
	text   string        // of the statement at which the connection is cut; empty: none
	before bool          // and the statement does not reach the server
	cut    chan struct{} // closed when that has happened
	conns  []net.Conn

	dropped net.Conn // to the server; its next answer does not arrive
}

// newCutter puts a network before the server of a URL, which ends with the test.
func newCutter(t *testing.T, at string) *cutter {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{server: u.Host}
	u.Host = listener.Addr().String()
	c.url = u.String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.serve(conn, &wg)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.closeAll()
		wg.Wait()
	})
	return c
}

func (c *cutter) serve(client net.Conn, wg *sync.WaitGroup) {
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		_ = client.Close()
		return
	}
	c.mu.Lock()
	c.conns = append(c.conns, client, server)
	c.mu.Unlock()
	wg.Go(func() { c.copy(server, client, true) })
	wg.Go(func() { c.copy(client, server, false) })
}

// copy carries bytes one way until an end, or a cut.
func (c *cutter) copy(to, from net.Conn, statements bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		switch {
		case c.silent:
			c.mu.Unlock()
			if err != nil {
				return
			}
			continue
		case err != nil:
			c.mu.Unlock()
			_, _ = to.Close(), from.Close()
			return
		case statements && c.text != "" && bytes.Contains(buffer[:n], []byte(c.text)):
			c.text = ""
			if c.dropped = to; c.before {
				n = 0
			}
		}
		answered := c.dropped == from
		cut := c.dropped != nil && (answered || c.before)
		if cut {
			c.dropped = nil
		}
		c.mu.Unlock()
		if cut {
			_, _ = to.Close(), from.Close()
			close(c.cut)
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cutAt cuts the connection that sends a text: before the server has it, or behind it and before its answer. The
// channel is closed when that has happened.
func (c *cutter) cutAt(text string, before bool) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text, c.before, c.cut = text, before, make(chan struct{})
	return c.cut
}

// silence swallows everything of the connections that there are.
func (c *cutter) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = true
}

// restore lets new connections through.
func (c *cutter) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = false
}

func (c *cutter) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}
