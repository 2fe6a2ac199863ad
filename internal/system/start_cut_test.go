package system_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

// cutter passes connections on to a server, except for one, which it cuts.
type cutter struct {
	net.Listener
	server string
	work   sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	number int // of the connections so far
	which  int // the connection to cut, from 1; 0: none
	writes int // of its client, the last of which is not passed on
	did    bool
}

// newCutter returns it with the URL through it.
func newCutter(t *testing.T, server string) (c *cutter, through string) {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	c = &cutter{Listener: l, server: u.Host}
	c.work.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.begin(0, 0)
		c.work.Wait()
	})
	u.Host = l.Addr().String()
	return c, u.String()
}

// begin closes what is left and says what to cut next; it returns how many connections there were, and whether one was cut.
func (c *cutter) begin(which, writes int) (connections int, did bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	connections, did = c.number, c.did
	c.conns, c.number, c.which, c.writes, c.did = nil, 0, which, writes, false
	return connections, did
}

func (c *cutter) accept() {
	for {
		client, err := c.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		c.mu.Lock()
		c.number++
		left := -1
		if c.number == c.which {
			left = c.writes
		}
		c.conns = append(c.conns, client, server)
		c.mu.Unlock()
		c.work.Go(func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
		c.work.Go(func() { c.pass(server, client, left) })
	}
}

// pass passes on what a client writes, so many times; negative: always.
func (c *cutter) pass(server, client net.Conn, left int) {
	defer func() { _, _ = server.Close(), client.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if left--; left == 0 && err == nil {
			c.mu.Lock()
			c.did = true
			c.mu.Unlock()
			return
		}
		if _, failed := server.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// startAndEnd runs a relay until it is ready.
func startAndEnd(t *testing.T, cfg *outrider.Config) error {
	t.Helper()
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	select {
	case <-relay.Ready():
		cancel()
		return <-ended
	case err := <-ended:
		return errors.Join(errors.New("the relay ended before it was ready"), err)
	}
}

// A connection that is cut during a start, whichever it is and however far it came, does not end the relay.
func TestG13_AConnectionThatIsCutDuringTheStart(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(t *testing.T) (server, sources string){
		"own table": func(t *testing.T) (string, string) { return testenv.Postgres(t), "{type: postgres, url: %q}" },
		"queue table": func(t *testing.T) (string, string) {
			return testenv.Postgres(t), "{type: postgres, url: %q, layout: flowcatalyst}"
		},
		"leader": func(t *testing.T) (string, string) {
			return testenv.Postgres(t), "{type: postgres, url: %q, leader: true, wake: notify}"
		},
		"MariaDB": func(t *testing.T) (string, string) {
			return testenv.MySQL(t), "{type: mysql, url: %q, layout: flowcatalyst}"
		},
		"MongoDB": func(t *testing.T) (string, string) {
			url, name := testenv.MongoDB(t)
			client, err := mongo.Connect(options.Client().ApplyURI(url))
			must(t, err)
			t.Cleanup(func() {
				must(t, client.Database(name).Drop(context.Background()))
				must(t, client.Disconnect(context.Background()))
			})
			return url, "{type: mongodb, url: %q, database: " + name + "}"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, source := of(t)
			c, through := newCutter(t, server)
			state := ""
			if name == "MongoDB" {
				state = fmt.Sprintf("state: {url: %q}\n", "sqlite:"+filepath.Join(t.TempDir(), "state.db"))
			}
			cfg, err := outrider.ParseConfig("test", []byte(state+"admin: {listen: off}\nsources: {app: "+fmt.Sprintf(source, through)+
				"}\ndestinations: {here: {type: discard}}\nroutes: {all: {from: app, to: here}}\n"))
			must(t, err)
			_, err = operate.Init(t.Context(), cfg)
			must(t, err)
			c.begin(0, 0)
			must(t, startAndEnd(t, cfg))
			connections, _ := c.begin(0, 0)
			if connections == 0 {
				t.Fatal("no connection was made")
			}
			cut := 0
			for which := 1; which <= connections; which++ {
				for i := range testenv.Brief(1, 6) {
					writes := 1 + (which+i)%6
					c.begin(which, writes)
					if err := startAndEnd(t, cfg); err != nil {
						t.Errorf("connection %d of %d, cut at write %d: %v", which, connections, writes, err)
					}
					if _, did := c.begin(0, 0); did {
						cut++
					}
				}
			}
			if cut == 0 {
				t.Error("no connection was cut")
			}
		})
	}
}

// What is wrong with a configuration ends a start at once.
func TestG11_AStartWithAWrongConfigurationEndsAtOnce(t *testing.T) {
	t.Parallel()
	good := testenv.Postgres(t)
	other, err := url.Parse(good)
	must(t, err)
	other.Path = "/no_such_database"
	password, err := url.Parse(testenv.MySQL(t))
	must(t, err)
	password.User = url.UserPassword(password.User.Username(), "wrong-and-long")
	for name, tt := range map[string]struct{ kind, url, want string }{
		"unknown database": {"postgres", other.String(), "no_such_database"},
		"no table":         {"postgres", good, "does not exist"},
		"nothing listens":  {"postgres", "postgres://" + testenv.Refused(t) + "/x", "connection refused"},
		"wrong password":   {"mysql, layout: flowcatalyst", password.String(), "correct user or password"},
	} {
		var log strings.Builder
		cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, "admin: {listen: off}\nsources: {app: {type: %s, url: %q}}\ndestinations: {here: {type: discard}}\nroutes: {all: {from: app, to: here}}\n", tt.kind, tt.url))
		must(t, err)
		relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		must(t, err)
		if err := relay.Run(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(log.String(), "tried again") {
			t.Errorf("%s: the start was tried again: %s", name, log.String())
		}
	}
}

// A server that cuts every connection is no reason to try for ever.
func TestAStartThatIsAlwaysCutEnds(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, "admin: {listen: off}\nsources: {app: {type: postgres, url: 'postgres://x@%s/x'}}\ndestinations: {here: {type: discard}}\nroutes: {all: {from: app, to: here}}\n", l.Addr()))
	must(t, err)
	var log strings.Builder
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	must(t, err)
	if err := relay.Run(t.Context()); err == nil || strings.Count(log.String(), "tried again") != 6 {
		t.Errorf("%v, and the log has %s", err, log.String())
	}
}
