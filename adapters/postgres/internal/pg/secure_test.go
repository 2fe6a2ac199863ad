package pg

import (
	"context"
	"crypto/tls"
	"errors"

	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outriderhq/outrider/internal/testenv"
)

// Every host that is not this machine is talked to over TLS, with its certificate
// checked, unless the URL's sslmode or the configuration says otherwise.
func TestTLSIsTheDefaultOffThisMachine(t *testing.T) {
	t.Setenv("PGSSLMODE", "disable") // of the environment, which is no word in a file
	roots := testenv.NewAuthority(t)
	const verify, skip, plain = "verify ", "unverified ", "plain "
	prefer := func(host string) string { return skip + host + "," + plain }
	for name, test := range map[string]struct {
		url  string
		tls  TLS
		want string // how each attempt is made, with the name that is expected
	}{
		"a host":               {"postgres://u:p@db/x", TLS{}, verify + "db"},
		"an address":           {"postgres://u:p@10.1.2.3:5433/x", TLS{}, verify + "10.1.2.3"},
		"two hosts":            {"postgres://u:p@db1,db2/x", TLS{}, verify + "db1," + verify + "db2"},
		"a DSN":                {"host=db user=u password='sslmode=disable it\\'s sslmode=disable'", TLS{}, verify + "db"},
		"a DSN with a mode":    {"host=db user=u sslmode=disable", TLS{}, plain},
		"an empty mode":        {"postgres://u:p@db/x?sslmode=", TLS{}, verify + "db"},
		"a mode in a fragment": {"postgres://u:p@db/x#?sslmode=disable", TLS{}, verify + "db"},
		"a host in the query":  {"postgres://u:p@localhost/x?host=db", TLS{}, verify + "db"},
		"an own authority":     {"postgres://u:p@db/x?sslrootcert=" + roots.File, TLS{}, verify + "db"},
		"this machine":         {"postgres://u:p@127.0.0.1/x", TLS{}, prefer("")},
		"its name":             {"postgres://u:p@LocalHost/x", TLS{}, prefer("LocalHost")},
		"a socket":             {"postgres:///x?host=/tmp", TLS{}, plain},
		"here and there":       {"postgres://u:p@127.0.0.1,db/x", TLS{}, prefer("") + "," + verify + "db"},
		"disable":              {"postgres://u:p@db/x?sslmode=disable", TLS{}, plain},
		"prefer":               {"postgres://u:p@db/x?sslmode=prefer", TLS{}, skip + "db," + plain},
		"require":              {"postgres://u:p@db/x?sslmode=require", TLS{}, skip + "db"},
		"verify-full":          {"postgres://u:p@db/x?sslmode=verify-full", TLS{}, verify + "db"},
		"off":                  {"postgres://u:p@db1,db2/x", TLS{Off: true}, plain + "," + plain},
		"given":                {"postgres://u:p@127.0.0.1,db/x", TLS{Config: &tls.Config{}}, verify + "127.0.0.1," + verify + "db"},
		"given with a name":    {"postgres://u:p@127.0.0.1/x", TLS{Config: &tls.Config{ServerName: "db"}}, verify + "db"},
		"given for a socket":   {"postgres:///x?host=/tmp", TLS{Config: &tls.Config{}}, plain},
	} {
		pc, err := (&Connection{URL: test.url, TLS: test.tls}).PoolConfig()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, a := range attemptsOf(&pc.ConnConfig.Config) {
			switch {
			case a.TLSConfig == nil:
				got = append(got, plain)
			case a.TLSConfig.InsecureSkipVerify:
				got = append(got, skip+a.TLSConfig.ServerName)
			default:
				got = append(got, verify+a.TLSConfig.ServerName)
			}
			if own := a.TLSConfig != nil && a.TLSConfig.RootCAs != nil; own != (name == "an own authority") && name == "an own authority" {
				t.Errorf("%s: the authority of the URL is not used", name)
			}
		}
		if strings.Join(got, ",") != test.want {
			t.Errorf("%s: attempts %q, want %q", name, strings.Join(got, ","), test.want)
		}
	}
	if _, err := (&Connection{URL: "postgres://u:p@db/x?sslmode=require", TLS: TLS{Off: true}}).PoolConfig(); !errors.Is(err, errTwoModes) {
		t.Errorf("sslmode beside TLS: %v", err)
	}
}

// thief is a server without TLS that asks for passwords and keeps what it gets.
type thief struct {
	net.Listener
	ask    pgproto3.BackendMessage
	stolen atomic.Int64 // messages that a client sent after it was asked
	asked  atomic.Int64
}

func newThief(t *testing.T, ask pgproto3.BackendMessage) *thief {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &thief{Listener: l, ask: ask}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.serve(conn)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return f
}

func (t *thief) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	backend := pgproto3.NewBackend(conn, conn)
	for {
		msg, err := backend.ReceiveStartupMessage()
		if err != nil {
			return
		}
		if _, ok := msg.(*pgproto3.SSLRequest); ok {
			if _, err := conn.Write([]byte("N")); err != nil {
				return
			}
			continue
		}
		break
	}
	t.asked.Add(1)
	backend.Send(t.ask)
	if backend.Flush() != nil {
		return
	}
	if n, _ := conn.Read(make([]byte, 100)); n > 0 {
		t.stolen.Add(1)
	}
}

// connect dials the thief by a URL whose host is said to be db.
func (t *thief) connect(ctx context.Context, url string, security TLS) error {
	pc, err := (&Connection{URL: url, TLS: security}).PoolConfig()
	if err != nil {
		return err
	}
	pc.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	pc.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, t.Addr().String())
	}
	conn, err := pgx.ConnectConfig(ctx, pc.ConnConfig)
	if err == nil {
		return errors.Join(errors.New("connected"), conn.Close(ctx))
	}
	return err
}

// A server that says no to TLS and asks for the password gets nothing: not by
// default, and not where TLS may be left out either.
func TestG12_AServerWithoutTLSGetsNoPassword(t *testing.T) {
	t.Parallel()
	asks := map[string]pgproto3.BackendMessage{
		"cleartext": &pgproto3.AuthenticationCleartextPassword{},
		"md5":       &pgproto3.AuthenticationMD5Password{Salt: [4]byte{1, 2, 3, 4}},
	}
	for name, ask := range asks {
		for mode, want := range map[string]string{
			"":                 "the server has no TLS",
			"?sslmode=require": "the server has no TLS",
			"?sslmode=prefer":  "asks for the password itself",
			"?sslmode=disable": "asks for the password itself",
		} {
			f := newThief(t, ask)
			err := f.connect(t.Context(), "postgres://u:hunter2@db/x"+mode, TLS{})
			if err == nil || !strings.Contains(tlsFix(err), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s%s: %v; %s", name, mode, err, tlsFix(err))
			}
			if n := f.stolen.Load(); n > 0 {
				t.Errorf("%s%s: the server got an answer", name, mode)
			}
		}
		f := newThief(t, ask)
		if err := f.connect(t.Context(), "postgres://u:hunter2@db/x", TLS{Off: true}); f.stolen.Load() > 0 || err == nil {
			t.Errorf("%s, TLS off: the server got an answer: %v", name, err)
		}
		f = newThief(t, ask)
		err := f.connect(t.Context(), "postgres://u:hunter2@db/x?sslmode=disable&require_auth="+map[string]string{"cleartext": "password"}[name]+map[string]string{"md5": "md5"}[name], TLS{})
		if f.stolen.Load() != 1 {
			t.Errorf("%s, allowed by require_auth: nothing was sent: %v", name, err)
		}
	}
}

// Against a server with TLS: its certificate is checked, an authority of one's own
// is named, a client's certificate logs in, and an MD5 password is given, inside
// of TLS only.
func TestG12_PostgresOverTLS(t *testing.T) {
	t.Parallel()
	authority, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	server := testenv.StartSecurePostgres(t, authority,
		"hostssl all scram 127.0.0.1/32 scram-sha-256",
		"host all hashed 127.0.0.1/32 md5",
		"hostssl all shown 127.0.0.1/32 cert clientcert=verify-full")
	admin, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	for _, sql := range []string{
		"CREATE ROLE scram LOGIN PASSWORD 'hunter2'", "CREATE ROLE shown LOGIN",
		"SET password_encryption = 'md5'", "CREATE ROLE hashed LOGIN PASSWORD 'hunter2'",
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	port := admin.Config().Port
	client := authority.Issue("shown").TLS
	trusting := &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
	showing := trusting.Clone()
	showing.Certificates = []tls.Certificate{client}
	named := trusting.Clone()
	named.ServerName = "db.example.com"
	wrong := trusting.Clone()
	wrong.ServerName = "elsewhere.example.com"
	const unknown = "name the authority that signed it"
	for name, test := range map[string]struct {
		url  string // its host is said to be db.example.com, or what is there
		tls  TLS
		want string // part of the fix; empty: it connects, over TLS
	}{
		"by default, unknown authority":   {"postgres://scram:hunter2@db.example.com/postgres", TLS{}, unknown},
		"verify-full, unknown authority":  {"postgres://scram:hunter2@db.example.com/postgres?sslmode=verify-full", TLS{}, unknown},
		"by default, authority in URL":    {"postgres://scram:hunter2@db.example.com/postgres?sslrootcert=" + authority.File, TLS{}, ""},
		"by default, another authority":   {"postgres://scram:hunter2@db.example.com/postgres?sslrootcert=" + other.File, TLS{}, unknown},
		"by default, another name":        {"postgres://scram:hunter2@elsewhere.example.com/postgres?sslrootcert=" + authority.File, TLS{}, unknown},
		"verify-full":                     {"postgres://scram:hunter2@db.example.com/postgres?sslmode=verify-full&sslrootcert=" + authority.File, TLS{}, ""},
		"ca_file":                         {"postgres://scram:hunter2@db.example.com/postgres", TLS{Config: trusting}, ""},
		"server_name":                     {"postgres://scram:hunter2@elsewhere.example.com/postgres", TLS{Config: named}, ""},
		"another server_name":             {"postgres://scram:hunter2@db.example.com/postgres", TLS{Config: wrong}, unknown},
		"on this machine":                 {"postgres://scram:hunter2@127.0.0.1/postgres", TLS{Config: trusting}, ""},
		"md5 inside TLS":                  {"postgres://hashed:hunter2@db.example.com/postgres", TLS{Config: trusting}, ""},
		"md5 without TLS":                 {"postgres://hashed:hunter2@db.example.com/postgres", TLS{Off: true}, "asks for the password itself"},
		"md5 without TLS on this machine": {"postgres://hashed:hunter2@127.0.0.1/postgres?sslmode=disable", TLS{}, "plain"},
		"a client's certificate":          {"postgres://shown@db.example.com/postgres", TLS{Config: showing}, ""},
	} {
		pc, err := (&Connection{URL: test.url, TLS: test.tls}).PoolConfig()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		pc.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
		pc.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		}
		conn, err := pgx.ConnectConfig(t.Context(), pc.ConnConfig)
		if err != nil {
			if test.want == "" || !strings.Contains(tlsFix(err), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var encrypted bool
		if err := conn.QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&encrypted); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if encrypted != (test.want == "") || test.want != "" && test.want != "plain" {
			t.Errorf("%s: connected, over TLS: %v, want %q", name, encrypted, test.want)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
