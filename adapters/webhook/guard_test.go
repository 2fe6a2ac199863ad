package webhook

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/outriderhq/outrider/adapters/internal/httpx"
	"github.com/outriderhq/outrider/outbox"
)

// privateServer is a server that nothing may reach; it counts connections.
type privateServer struct {
	*httptest.Server
	port    string
	reached atomic.Int64
}

func newPrivateServer(t *testing.T) *privateServer {
	t.Helper()
	p := &privateServer{}
	p.Server = httptest.NewUnstartedServer(http.NotFoundHandler())
	p.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			p.reached.Add(1)
		}
	}
	p.Start()
	t.Cleanup(p.Close)
	_, p.port, _ = net.SplitHostPort(p.Listener.Addr().String())
	return p
}

// resolveAllTo returns a resolver for which every name that is not in the hosts
// file has one address, like that of an attacker's domain.
func resolveAllTo(t *testing.T, addr netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply, ok := answerDNS(buf[:n], addr); ok {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func answerDNS(query []byte, addr netip.Addr) ([]byte, bool) {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil, false
	}
	q := m.Questions[0]
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}
	m.Additionals = nil
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0}
	switch {
	case q.Type == dnsmessage.TypeA && addr.Is4():
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}}}
	case q.Type == dnsmessage.TypeAAAA && addr.Is6():
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
	}
	reply, err := m.Pack()
	return reply, err == nil
}

// hosts are ways to write, or to hide, an address that webhooks must not reach.
// Every name among them resolves to this machine.
var hosts = strings.Fields(`
	127.0.0.1 127.0.0.2 127.255.255.254 127.1 127.0.1 2130706433 017700000001 0x7f000001 0x7f.0.0.1 0177.0.0.1
	0177.0.0.01 127.000.000.001 0 0.0.0.0 0x0 １２７.０.０.１ ①②⑦.⓪.⓪.① 127。0。0。1
	[::1] [0:0:0:0:0:0:0:1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:ffff:7f00:0001] [::127.0.0.1] [::ffff:0:127.0.0.1]
	localhost localhost. LOCALHOST ip6-localhost. sub.localhost 127.0.0.1. 127.0.0.1.nip.example
	rebinding.example metadata.google.internal xn--localhost-.example a-b.c
	169.254.169.254 [::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [fd00:ec2::254] 169.254.170.2 100.100.100.200
	10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.127.255.255 192.0.0.170
	[fe80::1] [fe80::1%25lo] [fc00::1] [fdff::1] [fec0::1] [ff02::1] 224.0.0.1 239.255.255.250 255.255.255.255 240.0.0.1
	192.0.2.1 198.51.100.1 203.0.113.1 [2001:db8::1] [3fff::1] 198.18.0.1 198.19.255.255 [2001:2::1]
	[64:ff9b::7f00:1] [64:ff9b::127.0.0.1] [64:ff9b:1::a00:1] [2002:7f00:1::1] [2002:a9fe:a9fe::] 192.88.99.1
	[2001::1] [2001:0:7f00:1::] [2001:10::1] [100::1] [5f00::1] [4000::1]
`)

func TestSSRFCorpus(t *testing.T) {
	t.Parallel()
	server := newPrivateServer(t)
	resolver := resolveAllTo(t, netip.MustParseAddr("127.0.0.1"))
	for _, host := range hosts {
		d, err := New(Config{URL: "http://" + host + ":" + server.port + "/x", Secrets: []string{secret}})
		if err != nil {
			if !strings.Contains(err.Error(), "allow_networks") {
				t.Errorf("%s: %v, want an error that says how to allow it", host, err)
			}
			continue
		}
		d.dialer.Resolver = resolver
		err = one(t, d, newMessage("1", "g"))
		// Some are neither addresses nor names to Go, but to other resolvers.
		told := err != nil && (strings.Contains(err.Error(), "allow_networks") || strings.Contains(err.Error(), "no such host"))
		if outbox.KindOf(err) != outbox.KindUnavailable || !told {
			t.Errorf("%s: %v (%v), want unavailable, and how to allow it", host, err, outbox.KindOf(err))
		}
		if err := d.Check(t.Context()); err == nil {
			t.Errorf("%s: Check is content", host)
		}
		_ = d.Close()
	}
	if n := server.reached.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestURLsThatHideTheirHost(t *testing.T) {
	t.Parallel()
	server := newPrivateServer(t)
	at := "127.0.0.1:" + server.port
	for _, url := range []string{
		"http://example.com@" + at + "/", "http://example.com:80@" + at + "/", "http://" + at + "#@example.com/",
		"http://" + at + "\\@example.com/", "http://" + at + "%2f@example.com/", "http://[::1]:" + server.port + "@example.com/",
		"gopher://" + at + "/", "file:///etc/passwd", "//" + at + "/", "http:///" + at + "/", "http://127.0.0.1%00.example.com/", "http:127.0.0.1",
	} {
		if d, err := New(Config{URL: url, Secrets: []string{secret}}); err == nil {
			d.dialer.Resolver = resolveAllTo(t, netip.MustParseAddr("127.0.0.1"))
			if err := one(t, d, newMessage("1", "g")); outbox.KindOf(err) != outbox.KindUnavailable {
				t.Errorf("%s: %v (%v), want unavailable", url, err, outbox.KindOf(err))
			}
			_ = d.Close()
		}
	}
	if n := server.reached.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// A name is judged by every address that is dialled for it, not once.
func TestANameThatResolvesElsewhereLater(t *testing.T) {
	t.Parallel()
	server := newPrivateServer(t)
	d, err := New(Config{URL: "http://partner.example:" + server.port, Secrets: []string{secret},
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/31")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	d.dialer.Resolver = resolveAllTo(t, netip.MustParseAddr("127.0.0.1"))
	if err := one(t, d, newMessage("1", "g")); err == nil || !strings.Contains(err.Error(), "404") {
		t.Fatalf("the allowed address: %v, want its answer", err)
	}
	d.transport.CloseIdleConnections()
	d.dialer.Resolver = resolveAllTo(t, netip.MustParseAddr("127.0.0.2"))
	if err := one(t, d, newMessage("1", "g")); outbox.KindOf(err) != outbox.KindUnavailable || !strings.Contains(err.Error(), "127.0.0.2 is a loopback address") {
		t.Errorf("the other address: %v, want it refused", err)
	}
	if n := server.reached.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// Nothing in the environment sends requests through somewhere else.
func TestNoProxy(t *testing.T) {
	proxy := newPrivateServer(t)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	d, err := New(Config{URL: "http://partner.example/", Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	d.dialer.Resolver = resolveAllTo(t, netip.MustParseAddr("10.0.0.1"))
	if err := one(t, d, newMessage("1", "g")); err == nil || !strings.Contains(err.Error(), "10.0.0.1 is a private address") {
		t.Errorf("%v, want the partner's address refused", err)
	}
	if n := proxy.reached.Load(); n != 0 {
		t.Errorf("%d connections to a proxy", n)
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	shut := httpx.Guard{Any: true, Denied: []netip.Prefix{netip.MustParsePrefix("8.8.0.0/16")}}
	open := httpx.Guard{Allowed: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}}
	for _, test := range []struct {
		guard   httpx.Guard
		addr    string
		refused string
	}{
		{httpx.Guard{}, "8.8.8.8", ""}, {httpx.Guard{}, "::ffff:8.8.8.8", ""}, {httpx.Guard{}, "172.32.0.1", ""}, {httpx.Guard{}, "172.15.0.1", ""},
		{httpx.Guard{}, "100.128.0.1", ""}, {httpx.Guard{}, "169.253.1.1", ""}, {httpx.Guard{}, "192.0.1.1", ""}, {httpx.Guard{}, "198.20.0.1", ""},
		{httpx.Guard{}, "223.255.255.255", ""}, {httpx.Guard{}, "2606:4700::1111", ""}, {httpx.Guard{}, "2001:4860:4860::8888", ""},
		{httpx.Guard{}, "2001:200::1", ""}, {httpx.Guard{}, "3ffe::1", ""},
		{httpx.Guard{}, "127.0.0.1", "a loopback"}, {httpx.Guard{}, "::ffff:10.0.0.1", "a private"}, {httpx.Guard{}, "fe80::1%eth0", "a link-local"},
		{httpx.Guard{}, "2001:0:1::1", "a Teredo"}, {httpx.Guard{}, "2002::1", "a 6to4"}, {httpx.Guard{}, "64:ff9b::808:808", "a NAT64"},
		{httpx.Guard{}, "2001:db8::1", "a documentation"}, {httpx.Guard{}, "ff02::1", "a multicast"}, {httpx.Guard{}, "255.255.255.255", "a reserved"},
		{httpx.Guard{}, "::", "an unspecified"}, {httpx.Guard{}, "1::1", "a reserved"}, {httpx.Guard{}, "fec0::1", "a private"},
		{open, "10.1.2.3", ""}, {open, "::ffff:10.1.2.3", ""}, {open, "fd12::1", ""}, {open, "10.2.0.1", "a private"},
		{httpx.Guard{}, "168.63.129.16", "an Azure platform"}, {shut, "8.8.8.8", "in a network of deny_networks"}, {shut, "64:ff9b::808:808", "in a network of deny_networks"},
		{shut, "2002:808:808::1", "in a network of deny_networks"}, {shut, "9.9.9.9", ""}, {open, "127.0.0.1", "a loopback"}, {httpx.Guard{Any: true}, "127.0.0.1", ""},
	} {
		err := test.guard.Check(netip.MustParseAddr(test.addr))
		switch {
		case test.refused == "" && err != nil:
			t.Errorf("%s: %v", test.addr, err)
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), "is "+test.refused)):
			t.Errorf("%s: %v, want it refused as %s address", test.addr, err, test.refused)
		}
	}
	for _, address := range []string{"", "nonsense", "127.0.0.1", "/run/socket"} {
		if err := (httpx.Guard{}).Control("tcp", address, nil); err == nil {
			t.Errorf("%q passes", address)
		}
	}
}
