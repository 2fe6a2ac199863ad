package interleave_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

// postgres is PostgreSQL as the scheduler sees it.
type postgres struct{ db *sql.DB }

// waiting implements [database].
func (p postgres) waiting(pids []int64) (n int, err error) {
	err = p.db.QueryRow("SELECT count(*) FROM unnest($1::int[]) AS p(id) WHERE cardinality(pg_blocking_pids(p.id)) > 0", pids).Scan(&n)
	return n, err
}

// end implements [database].
func (p postgres) end(pid int64) error {
	for {
		var there bool
		err := p.db.QueryRow("SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity WHERE pid = $1", pid).Scan(&there)
		if err != nil || !there {
			return err
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// pgConn is a connection of a session, as the proxy sees it.
type pgConn struct {
	*link
	client, server *bufio.Reader
	pid            int64
	spare          *spare

	statements map[string]string // texts by the names of prepared statements
	bound      string            // text of the statement that is bound
	pending    []byte            // messages that the server has not got
	status     byte              // of the server's last ReadyForQuery
	answers    []byte            // of the server, that the client has not got
	holds      touches           // what the transaction has changed
	failed     bool              // the server skips what comes until the next Sync
	ended      byte              // kind of the answer that the last exchange ended with
	copying    string            // text of the COPY whose rows come, empty: none
}

// serve implements [database].
func (p postgres) serve(l *link) error {
	c := &pgConn{link: l, client: bufio.NewReader(l.client), statements: map[string]string{}, holds: touches{}}
	key, err := c.begin()
	for err == nil {
		var kind byte
		var message []byte
		if kind, message, err = readPG(c.client); err == nil {
			err = c.message(kind, message)
		}
	}
	if errors.Is(err, io.EOF) && c.spare != nil && c.status == 'I' && len(c.pending) == 0 {
		c.keep(key)
	}
	return err
}

// spare is a connection to the server that has no client.
type spare struct {
	server  net.Conn
	reader  *bufio.Reader
	pid     int64
	answers []byte // to the beginning of the connection
}

// begin takes a connection that was begun in the same way, or makes one.
func (c *pgConn) begin() (key string, err error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.client, head); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(c.client, body); err != nil {
		return "", err
	}
	key = string(body)
	c.w.mu.Lock()
	if kept := c.spares[key]; len(kept) > 0 {
		c.spare, c.spares[key] = kept[len(kept)-1], kept[:len(kept)-1]
	}
	c.w.mu.Unlock()
	if c.spare != nil {
		c.attach(c.spare.server)
		c.server, c.pid, c.status = c.spare.reader, c.spare.pid, 'I'
		_, err = c.link.client.Write(c.spare.answers)
		return key, err
	}
	if err := c.dial(); err != nil {
		return "", err
	}
	c.server = bufio.NewReader(c.link.server)
	answers, err := c.startUp(slices.Concat(head, body))
	c.spare = &spare{c.link.server, c.server, c.pid, answers}
	return key, err
}

// keep has another client use the connection, whose session is as new: to make one takes as long as a run.
func (c *pgConn) keep(key string) {
	c.answers = nil
	if err := c.exchange(pgMessage('Q', []byte("DISCARD ALL\x00")), "Z"); err != nil || c.status != 'I' {
		return
	}
	c.attach(nil)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.spares[key] = append(c.spares[key], c.spare)
}

// startUp passes the beginning of a connection on, and returns what the server says to it.
func (c *pgConn) startUp(message []byte) (answers []byte, err error) {
	for err = c.toServer(message); err == nil; {
		var kind byte
		if kind, message, err = c.answer(); err != nil {
			break
		}
		answers = append(answers, message...)
		if err = c.flush(); err != nil || kind == 'Z' {
			c.status = 'I'
			break
		}
		switch {
		case kind == 'K':
			c.pid = int64(binary.BigEndian.Uint32(message[5:]))
		case kind == 'R' && binary.BigEndian.Uint32(message[5:]) != 0: // it wants a password
			if _, message, err = readPG(c.client); err == nil {
				err = c.toServer(message)
			}
		}
	}
	return answers, err
}

var copies = regexp.MustCompile(`(?i)^\s*copy .* from stdin`)

// message handles one message of the client.
func (c *pgConn) message(kind byte, message []byte) error {
	body := message[5:]
	if c.failed && kind != 'S' {
		return nil
	}
	switch kind {
	case 'Q':
		text := string(bytes.TrimRight(body, "\x00"))
		if copies.MatchString(text) { // what it does it does when its rows have come
			err := c.pass(pgMessage('Q', append([]byte(c.mutate(text)), 0)), "ZG")
			if c.copying = ""; c.ended == 'G' {
				c.copying = text
			}
			return err
		}
		return c.send(text, pgMessage('Q', append([]byte(c.mutate(text)), 0)), "Z")
	case 'P':
		name, rest, _ := bytes.Cut(body, []byte{0})
		text, types, _ := bytes.Cut(rest, []byte{0})
		c.statements[string(name)] = string(text)
		message = pgMessage('P', bytes.Join([][]byte{name, []byte(c.mutate(string(text))), types}, []byte{0}))
	case 'B':
		_, rest, _ := bytes.Cut(body, []byte{0})
		name, _, _ := bytes.Cut(rest, []byte{0})
		c.bound = c.statements[string(name)]
	case 'E':
		return c.send(c.bound, append(message, pgMessage('H', nil)...), "CEIs")
	case 'S':
		c.failed = false
		if c.status == 'I' && len(c.holds) > 0 { // the end of an implicit transaction
			return c.send("COMMIT", message, "Z")
		}
		return c.pass(message, "Z")
	case 'H':
		return errors.New("the proxy does not know how many answers follow a Flush")
	case 'd', 'c', 'f': // rows, their end, and a client that has no more
		if c.copying == "" {
			return nil // the server has refused the statement
		}
		if kind != 'd' {
			return c.send(c.copying, message, "Z")
		}
	case 'X':
		return io.EOF
	}
	c.pending = append(c.pending, message...)
	return nil
}

// send sends a statement when the scheduler says so, and passes its answer on.
func (c *pgConn) send(text string, message []byte, until string) error {
	of := touched(text)
	if isEnd(text) {
		of = touches{}
		of.add(c.holds, true)
	}
	if len(of) == 0 {
		return c.pass(message, until)
	}
	return c.carryOut(step{text, of}, c.pid, func() error {
		c.holds.add(of, true)
		return c.exchange(message, until)
	}, c.flush)
}

// pass sends what is pending and a message, and passes the answers on.
func (c *pgConn) pass(message []byte, until string) error {
	return errors.Join(c.exchange(message, until), c.flush())
}

// exchange sends what is pending and a message, and reads the answers up to one of some kinds.
func (c *pgConn) exchange(message []byte, until string) error {
	err := c.toServer(append(c.pending, message...))
	c.pending = c.pending[:0]
	var kind byte
	for err == nil && !bytes.ContainsRune([]byte(until), rune(kind)) {
		if kind, message, err = c.answer(); kind == 'E' { // which ends the transaction
			c.failed, c.holds = !strings.Contains(until, "Z"), touches{}
		}
	}
	if c.ended = kind; err == nil && kind == 'Z' {
		if c.status = message[5]; c.status == 'I' {
			c.holds = touches{}
		}
	}
	return err
}

// flush gives the client the answers.
func (c *pgConn) flush() error {
	_, err := c.link.client.Write(c.answers)
	c.answers = c.answers[:0]
	return err
}

// answer reads one message of the server.
func (c *pgConn) answer() (kind byte, message []byte, err error) {
	kind, message, err = readPG(c.server)
	c.answers = append(c.answers, message...)
	return kind, message, err
}

func (c *pgConn) toServer(message []byte) error {
	_, err := c.link.server.Write(message)
	return err
}

// readPG reads a message of PostgreSQL's protocol, with its head.
func readPG(r *bufio.Reader) (kind byte, message []byte, err error) {
	head := make([]byte, 5)
	if _, err = io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	message = slices.Concat(head, make([]byte, binary.BigEndian.Uint32(head[1:])-4))
	_, err = io.ReadFull(r, message[5:])
	return head[0], message, err
}

func pgMessage(kind byte, body []byte) []byte {
	message := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(message, body...)
}
