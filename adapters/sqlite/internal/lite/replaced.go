package lite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/outriderhq/outrider/adapters"
)

// A connection continues with the file that it has opened, also when another one has been
// put in its place by a rename: it would read and write a file that no other process
// uses. So a connection is given up for a new one when it is used the next time,
// and a source says what has happened.

// sameFile remembers which file is at a path.
type sameFile struct {
	name string // empty: the database is in memory
	info os.FileInfo
}

// replaced reports whether there is another file now than when it was asked before. A
// file that is away for the moment is not.
func (f *sameFile) replaced() bool {
	if f.name == "" {
		return false
	}
	now, err := os.Stat(f.name)
	if err != nil {
		return false
	}
	before := f.info
	f.info = now
	return before != nil && !os.SameFile(before, now)
}

// connector opens connections that look whether their file is still there.
type connector struct {
	driver     driver.Driver
	dataSource string
	file       string // empty: the database is in memory
	creates    bool   // a file that is not there is made
}

// newConnector returns what opens connections by a data source.
func newConnector(l Location, dataSource string) (*connector, error) {
	db, err := sql.Open("sqlite", dataSource) // which connects to nothing, and has the driver
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it has no connection
	c := &connector{driver: db.Driver(), dataSource: dataSource, file: l.name}
	if l.memory {
		c.file = ""
	}
	if _, query, ok := strings.Cut(dataSource, "?"); ok && !l.memory {
		params, err := url.ParseQuery(query)
		c.creates = err == nil && (!params.Has("mode") || params.Get("mode") == "rwc")
	}
	return c, nil
}

// Connect implements [driver.Connector].
func (c *connector) Connect(context.Context) (driver.Conn, error) {
	if c.creates {
		private(c.file)
	}
	file := sameFile{name: c.file}
	file.replaced() // before it is opened: what comes in between is noticed later
	opened, err := c.driver.Open(c.dataSource)
	if err != nil {
		return nil, err
	}
	conn, ok := opened.(driverConn)
	if !ok {
		_ = opened.Close() // it cannot be used
		return nil, fmt.Errorf("the driver's connection is a %T, which lacks what is needed", opened)
	}
	return &watchedConn{driverConn: conn, file: file}, nil
}

// private makes a file that is not there, for its owner alone: it will have payloads. SQLite makes the files next to it (-wal, -shm)
// with the same rights. An error is SQLite's to report, when it opens the file.
func private(name string) {
	if f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close() // nothing was written
	}
}

// Driver implements [driver.Connector].
func (c *connector) Driver() driver.Driver { return c.driver }

// driverConn has the methods of the driver's connections.
type driverConn interface {
	driver.Conn
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.SessionResetter
	driver.Validator
}

// watchedConn is a connection that is given up when its file was replaced.
type watchedConn struct {
	driverConn
	file sameFile
}

// ResetSession is called before a connection is used again.
func (c *watchedConn) ResetSession(ctx context.Context) error {
	if c.file.replaced() {
		return driver.ErrBadConn
	}
	return c.driverConn.ResetSession(ctx)
}

// Watch notices when another file takes the place of a source's. [WatchFile] makes one.
type Watch struct {
	mu   sync.Mutex
	file sameFile
}

// WatchFile begins to watch the file of a name; empty: the database is in memory.
func WatchFile(name string) *Watch {
	w := &Watch{file: sameFile{name: name}}
	w.file.replaced() // notes which file it is now
	return w
}

// Check returns an error, once, when another file has taken the place of the one that
// was read.
func (w *Watch) Check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file.replaced() {
		return fmt.Errorf("the file %s was replaced by another one: %w; routes whose cursors are not valid in it stop, "+
			"and `outrider rebase` repositions them", w.file.name, adapters.ErrWentBack)
	}
	return nil
}
