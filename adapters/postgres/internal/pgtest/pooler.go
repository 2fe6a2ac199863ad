package pgtest

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// transactionPooler lends its clients a server session for one transaction at a
// time, the one that was given back last, as poolers do.
type transactionPooler struct {
	t      *testing.T
	server string
	keeps  bool // lends a session for as long as the client stays, instead
	mu     sync.Mutex
	idle   []*pgconn.HijackedConn
	all    []net.Conn
}

// StartPooler returns the URL of a pooler in front of a database.
func StartPooler(t *testing.T, server string) string { return StartPoolerThat(t, server, false) }

// StartPoolerThat is StartPooler for a pooler that keeps a session for each client, if
// it is to.
func StartPoolerThat(t *testing.T, server string, keeps bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &transactionPooler{t: t, server: server, keeps: keeps}
	var clients sync.WaitGroup
	clients.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.keep(conn)
			clients.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // ends the accepting goroutine
		p.mu.Lock()
		for _, c := range p.all {
			_ = c.Close() // ends the goroutine that serves it
		}
		p.mu.Unlock()
		clients.Wait()
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = l.Addr().String()
	return u.String()
}

func (p *transactionPooler) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, c)
}

// serve answers one client until it leaves.
func (p *transactionPooler) serve(conn net.Conn) {
	client := pgproto3.NewBackend(conn, conn)
	started, err := client.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if name := unsupported(started); name != "" {
		client.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name})
		_ = client.Flush() // the client learns it, or has gone
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for client.Flush() == nil {
		msg, err := client.Receive()
		if err != nil {
			return
		}
		if _, ok := msg.(*pgproto3.Terminate); ok {
			return
		}
		if err := p.transaction(client, msg); err != nil {
			return
		}
	}
}

// unsupported is a parameter of a client's start that PgBouncer refuses: it can set those only that the server reports.
func unsupported(started pgproto3.FrontendMessage) string {
	if m, ok := started.(*pgproto3.StartupMessage); ok {
		for name := range m.Parameters {
			switch name {
			case "user", "database", "client_encoding", "application_name", "timezone", "datestyle", "standard_conforming_strings":
			default:
				return name
			}
		}
	}
	return ""
}

// transaction forwards messages from the first of a transaction to its end.
func (p *transactionPooler) transaction(client *pgproto3.Backend, msg pgproto3.FrontendMessage) error {
	server, err := p.take()
	if err != nil {
		return err
	}
	return p.lend(client, server, msg)
}

// lend forwards messages until the server is given back.
func (p *transactionPooler) lend(client *pgproto3.Backend, server *pgconn.HijackedConn, msg pgproto3.FrontendMessage) error {
	for {
		server.Frontend.Send(msg)
		if err := server.Frontend.Flush(); err != nil {
			return err
		}
		switch msg.(type) {
		case *pgproto3.Query, *pgproto3.Sync:
			status, err := p.answer(client, server)
			if err != nil || status == 'I' && !p.keeps {
				return err
			}
		}
		var err error
		if msg, err = client.Receive(); err != nil {
			return err
		}
	}
}

// answer forwards what the server says until it is ready. At the end of a
// transaction the server is free before the client knows: its next message, and
// anybody else's, may get it at once.
func (p *transactionPooler) answer(client *pgproto3.Backend, server *pgconn.HijackedConn) (byte, error) {
	for {
		msg, err := server.Frontend.Receive()
		if err != nil {
			return 0, err
		}
		client.Send(msg)
		var status byte // copied: the message is the server's, and may be reused
		ready, ended := msg.(*pgproto3.ReadyForQuery)
		if ended {
			status = ready.TxStatus
		}
		if status == 'I' && !p.keeps {
			p.mu.Lock()
			p.idle = append(p.idle, server)
			p.mu.Unlock()
		}
		if err := client.Flush(); err != nil {
			return 0, err
		}
		if ended {
			return status, nil
		}
	}
}

func (p *transactionPooler) take() (*pgconn.HijackedConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		server := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return server, nil
	}
	conn, err := pgconn.Connect(p.t.Context(), p.server)
	if err != nil {
		return nil, err
	}
	server, err := conn.Hijack()
	if err == nil {
		p.all = append(p.all, server.Conn)
	}
	return server, err
}
