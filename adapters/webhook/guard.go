package webhook

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// guard decides which addresses may be dialled.
type guard struct {
	any     bool
	allowed []netip.Prefix
}

// special are the networks that no public receiver can be in, or from which a
// gateway leads back to such a network (the IANA registries of special-purpose
// addresses). The first that holds an address names it.
var special = func() []network {
	var out []network
	for _, n := range []struct{ name, prefixes string }{
		{"an unspecified", "0.0.0.0/8 ::/128"},
		{"a loopback", "127.0.0.0/8 ::1/128"},
		{"a private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"},
		{"a link-local", "169.254.0.0/16 fe80::/10"},
		{"a shared (carrier-grade NAT)", "100.64.0.0/10"},
		{"a multicast", "224.0.0.0/4 ff00::/8"},
		{"a documentation", "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20"},
		{"a benchmarking", "198.18.0.0/15 2001:2::/48"},
		{"a NAT64", "64:ff9b::/96 64:ff9b:1::/48"},
		{"a 6to4", "192.88.99.0/24 2002::/16"},
		{"a Teredo", "2001::/32"},
		{"a reserved", "192.0.0.0/24 240.0.0.0/4 2001::/23"},
	} {
		for p := range strings.FieldsSeq(n.prefixes) {
			out = append(out, network{netip.MustParsePrefix(p), n.name})
		}
	}
	return out
}()

// global is what of IPv6 has been given out; the rest is as good as private.
var global = netip.MustParsePrefix("2000::/3")

type network struct {
	prefix netip.Prefix
	name   string // with its article
}

// control is for [net.Dialer]: it sees the address that is about to be dialled,
// after the name was resolved.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address that can be checked: %w", address, err)
	}
	return g.check(to.Addr())
}

// check returns an error that says why an address is refused, and the fix.
func (g guard) check(addr netip.Addr) error {
	// Mapped and zoned addresses are other ways to write the same.
	addr = addr.Unmap().WithZone("")
	if g.any {
		return nil
	}
	for _, p := range g.allowed {
		if p.Contains(addr) {
			return nil
		}
	}
	if name := nameOf(addr); name != "" {
		return fmt.Errorf("%v is %s address, and webhooks go to public ones only; "+
			"if that is where they should go, add its network to allow_networks, or set allow_private", addr, name)
	}
	return nil
}

// nameOf names what kind of address one is; empty: a public one.
func nameOf(addr netip.Addr) string {
	for _, n := range special {
		if n.prefix.Contains(addr) {
			return n.name
		}
	}
	if addr.Is6() && !global.Contains(addr) {
		return "a reserved"
	}
	return ""
}
