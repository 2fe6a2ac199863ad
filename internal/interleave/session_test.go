package interleave_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
)

// database is a server as the scheduler sees it.
type database interface {
	// serve passes the traffic of a connection on until it ends, each step when the gate lets it.
	serve(l *link) error

	// waiting counts those of the connections that wait for a lock.
	waiting(pids []int64) (int, error)

	// end ends a connection and waits for its end, with which its transaction is rolled back.
	end(pid int64) error
}

// What a session does.
type condition int

const (
	running condition = iota // Go
	atGate                   // its next statement waits to be sent
	sent                     // the server has it
	over
)

// session is what one process does: the statements of all its connections, one at a time.
type session struct {
	name  string
	w     *world
	url   string // of its proxy
	proxy net.Listener

	// The fields below are guarded by the world's lock.
	live  bool // its statements are steps
	is    condition
	next  step
	pid   int64
	grant chan action
	steps int
	cuts  int // how often its connections may be cut
	err   error
	links sync.WaitGroup
	open  map[*link]bool

	spares map[string][]*spare // connections to the server that are used again, by how they were begun
}

// errCut ends a connection.
var errCut = errors.New("the connection was cut")

// link is a connection of a session through its proxy.
type link struct {
	*session
	client, server net.Conn
	address        string // of the server
}

// dial connects to the server.
func (l *link) dial() error {
	server, err := net.Dial("tcp", l.address)
	l.attach(server)
	return err
}

// attach sets the connection to the server; nil: it is not the link's any more.
func (l *link) attach(server net.Conn) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.server = server
}

// newSession starts a proxy.
func (w *world) newSession(name string) (*session, error) {
	u, err := url.Parse(w.server)
	if err != nil {
		return nil, err
	}
	address := u.Host
	s := &session{name: name, w: w, is: over, grant: make(chan action), open: map[*link]bool{}, spares: map[string][]*spare{}}
	if s.proxy, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	u.Host = s.proxy.Addr().String()
	s.url = u.String()
	s.links.Go(func() {
		for {
			client, err := s.proxy.Accept()
			if err != nil {
				return
			}
			l := &link{session: s, client: client, address: address}
			w.mu.Lock()
			s.open[l] = true
			w.mu.Unlock()
			s.links.Go(func() {
				_ = w.db.serve(l) // the adapter sees what it is
				_ = client.Close()
				w.mu.Lock()
				defer w.mu.Unlock()
				if delete(s.open, l); l.server != nil {
					_ = l.server.Close()
				}
			})
		}
	})
	w.sessions = append(w.sessions, s)
	return s, nil
}

// close ends the proxy and its connections.
func (s *session) close() {
	_ = s.proxy.Close()
	s.w.mu.Lock()
	for l := range s.open {
		if _ = l.client.Close(); l.server != nil {
			_ = l.server.Close()
		}
	}
	s.w.mu.Unlock()
	s.links.Wait()
	for _, spare := range s.spares {
		for _, c := range spare {
			_ = c.server.Close()
		}
	}
}

// gate waits until the scheduler lets a step go.
func (s *session) gate(st step, pid int64) action {
	s.w.mu.Lock()
	if !s.live {
		s.w.mu.Unlock()
		return goOn
	}
	s.is, s.next, s.pid = atGate, st, pid
	s.w.mu.Unlock()
	s.w.signal()
	select {
	case do := <-s.grant:
		return do
	case <-s.w.closing:
		return goOn
	}
}

// answered notes that the server has answered.
func (s *session) answered() {
	s.w.mu.Lock()
	if s.live {
		s.is = running
	}
	s.w.mu.Unlock()
	s.w.signal()
}

// carryOut carries a step out when the scheduler says so, and passes its answer on, unless the connection is cut.
func (l *link) carryOut(st step, pid int64, send, pass func() error) error {
	do := l.gate(st, pid)
	var err error
	if do != cutBefore {
		err = send()
	}
	if do != goOn {
		err = errors.Join(err, errCut, l.w.db.end(pid)) // which ends its transaction
	}
	if l.answered(); err == nil { // before the client goes on
		err = pass()
	}
	return err
}

// mutate changes the text of a statement as the mutant says.
func (s *session) mutate(text string) string {
	m := s.w.mutant
	if m == nil || !strings.Contains(text, m.find) || !strings.Contains(text, m.within) {
		return text
	}
	m.met.Add(1)
	return strings.ReplaceAll(text, m.find, m.replace)
}

// start runs what the session does.
func (s *session) start(run func() error) {
	s.w.mu.Lock()
	s.is, s.live, s.steps, s.err = running, true, 0, nil
	s.w.mu.Unlock()
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			s.w.mu.Lock()
			s.is, s.live, s.err = over, false, err
			s.w.mu.Unlock()
			s.w.signal()
		}()
		err = run()
	}()
}
