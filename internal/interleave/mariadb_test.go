package interleave_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mariadb is a MariaDB server of its own as the scheduler sees it: what waits for a lock is counted for the whole server.
type mariadb struct{ db *sql.DB }

// mariadbConfig is how a URL of a database is connected to.
func mariadbConfig(server string) (*mysql.Config, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = u.User.Username(), "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	cfg.Logger = &mysql.NopLogger{}
	return cfg, nil
}

// waiting implements [database].
func (m mariadb) waiting([]int64) (n int, err error) {
	var name string
	err = m.db.QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'").Scan(&name, &n)
	return n, err
}

// end implements [database].
func (m mariadb) end(pid int64) error {
	for {
		if _, err := m.db.Exec(fmt.Sprintf("KILL %d", pid)); err != nil {
			if refused, ok := errors.AsType[*mysql.MySQLError](err); ok && refused.Number == 1094 {
				return nil // there is none
			}
			return err
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// Commands of the protocol.
const (
	comQuit    = 0x01
	comQuery   = 0x03
	comPrepare = 0x16
	comExecute = 0x17
	comLong    = 0x18
	comClose   = 0x19
)

// myConn is a connection of a session, as the proxy sees it.
type myConn struct {
	*link
	client, server *bufio.Reader
	pid            int64
	plainEnd       bool              // columns end without a packet of their own
	statements     map[uint32]string // texts of prepared statements
	answers        []byte            // of the server, that the client has not got
	inside         bool              // a transaction
	holds          touches           // what it has changed
}

// serve implements [database].
func (m mariadb) serve(l *link) error {
	if err := l.dial(); err != nil {
		return err
	}
	c := &myConn{link: l, client: bufio.NewReader(l.client), server: bufio.NewReader(l.server), statements: map[uint32]string{}, holds: touches{}}
	err := c.greet()
	for err == nil {
		var packet []byte
		if packet, err = readMy(c.client); err == nil {
			err = c.command(packet)
		}
	}
	return err
}

// greet passes the beginning of a connection on.
func (c *myConn) greet() error {
	greeting, err := readMy(c.server)
	if err != nil {
		return err
	}
	_, rest, _ := bytes.Cut(greeting[5:], []byte{0})
	c.pid = int64(binary.LittleEndian.Uint32(rest))
	if _, err = c.link.client.Write(greeting); err != nil {
		return err
	}
	login, err := readMy(c.client)
	if err != nil {
		return err
	}
	const deprecateEOF = 1 << 24
	c.plainEnd = binary.LittleEndian.Uint32(login[4:])&deprecateEOF != 0
	for packet := login; ; {
		if packet != nil {
			if _, err := c.link.server.Write(packet); err != nil {
				return err
			}
		}
		answer, err := c.answer()
		if err == nil {
			err = c.flush()
		}
		switch {
		case err != nil || answer[4] == 0x00:
			return err
		case answer[4] == 0xff:
			return io.EOF
		case answer[4] == 0xfe || answer[4] == 0x01 && answer[5] == 4:
			if packet, err = readMy(c.client); err != nil {
				return err
			}
		default:
			packet = nil
		}
	}
}

// command handles one command of the client.
func (c *myConn) command(packet []byte) error {
	switch packet[4] {
	case comQuit:
		return io.EOF
	case comQuery:
		text := string(packet[5:])
		return c.send(text, myPacket(comQuery, []byte(c.mutate(text))))
	case comExecute:
		return c.send(c.statements[binary.LittleEndian.Uint32(packet[5:])], packet)
	case comPrepare:
		return c.prepare(string(packet[5:]))
	case comLong, comClose:
		_, err := c.link.server.Write(packet)
		return err
	}
	_, err := c.link.server.Write(packet)
	if err == nil {
		_, err = c.answer()
	}
	return errors.Join(err, c.flush())
}

// prepare passes a statement that is to be prepared on.
func (c *myConn) prepare(text string) error {
	_, err := c.link.server.Write(myPacket(comPrepare, []byte(c.mutate(text))))
	if err != nil {
		return err
	}
	first, err := c.answer()
	if err == nil && first[4] == 0 {
		c.statements[binary.LittleEndian.Uint32(first[5:])] = text
		for _, n := range []uint16{binary.LittleEndian.Uint16(first[11:]), binary.LittleEndian.Uint16(first[9:])} {
			if n > 0 && !c.plainEnd {
				n++
			}
			for ; n > 0 && err == nil; n-- {
				_, err = c.answer()
			}
		}
	}
	return errors.Join(err, c.flush())
}

// send sends a statement when the scheduler says so, and passes its answer on. The commit of one that changes something without a transaction
// around it is a step of its own.
func (c *myConn) send(text string, packet []byte) error {
	of, end := touched(text), isEnd(text)
	if end {
		of = touches{}
		of.add(c.holds, true)
	}
	begins := strings.HasPrefix(text, "START TRANSACTION") || strings.HasPrefix(text, "BEGIN")
	if len(of) == 0 {
		err := c.exchange(packet)
		if c.inside = (c.inside || begins) && !end; end {
			c.holds = touches{}
		}
		return errors.Join(err, c.flush())
	}
	alone := !c.inside && changesRows(text)
	return c.carryOut(step{text, of}, c.pid, func() (err error) {
		if alone {
			err = c.silently("START TRANSACTION")
		}
		c.holds.add(of, true)
		err = errors.Join(err, c.exchange(packet))
		if end || !c.inside && !alone {
			c.inside, c.holds = false, touches{}
		}
		return err
	}, func() error {
		of := c.holds
		if !alone {
			return c.flush()
		}
		if c.holds = (touches{}); c.answers[4] == 0xff {
			return errors.Join(c.silently("ROLLBACK"), c.flush())
		}
		return c.carryOut(step{"COMMIT", of}, c.pid, func() error { return c.silently("COMMIT") }, c.flush)
	})
}

// changesRows reports whether a statement changes rows, and does not only lock them.
func changesRows(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "INSERT") || strings.HasPrefix(text, "UPDATE") || strings.HasPrefix(text, "DELETE")
}

// silently executes a statement of which the client does not know.
func (c *myConn) silently(text string) error {
	kept := c.answers
	c.answers = nil
	err := c.exchange(myPacket(comQuery, []byte(text)))
	if err == nil && c.answers[4] == 0xff {
		err = fmt.Errorf("%s: %q", text, c.answers[13:])
	}
	c.answers = kept
	return err
}

// exchange sends a statement and reads its answer.
func (c *myConn) exchange(packet []byte) error {
	_, err := c.link.server.Write(packet)
	if err != nil {
		return err
	}
	first, err := c.answer()
	if err != nil || first[4] == 0x00 {
		return err
	}
	if first[4] == 0xff {
		if binary.LittleEndian.Uint16(first[5:]) == deadlock {
			c.holds = touches{} // it was rolled back
		}
		return nil
	}
	for columns := int(first[4]); columns > 0 && err == nil; columns-- {
		_, err = c.answer()
	}
	if !c.plainEnd && err == nil {
		_, err = c.answer()
	}
	for err == nil {
		var row []byte
		if row, err = c.answer(); err == nil && (row[4] == 0xff || row[4] == 0xfe && len(row) < 4+9+64) {
			break
		}
	}
	return err
}

// deadlock is the server's number for one.
const deadlock = 1213

// answer reads one packet of the server.
func (c *myConn) answer() ([]byte, error) {
	packet, err := readMy(c.server)
	c.answers = append(c.answers, packet...)
	return packet, err
}

// flush gives the client the answers.
func (c *myConn) flush() error {
	_, err := c.link.client.Write(c.answers)
	c.answers = c.answers[:0]
	return err
}

// readMy reads a packet of MySQL's protocol, with its head.
func readMy(r *bufio.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	packet := make([]byte, 4+int(head[0])+int(head[1])<<8+int(head[2])<<16)
	copy(packet, head)
	_, err := io.ReadFull(r, packet[4:])
	if err == nil && len(packet) == 4 {
		err = errors.New("an empty packet")
	}
	return packet, err
}

func myPacket(command byte, body []byte) []byte {
	n := len(body) + 1
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0, command}, body...)
}
