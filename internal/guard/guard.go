// Package guard says which addresses the requests of http and webhook destinations may go to.
package guard

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Guard decides which addresses may be dialled; the zero value allows public ones.
type Guard struct {
	Any     bool           // addresses that are not public, too
	Allowed []netip.Prefix // networks that are allowed although they are not public
	Denied  []netip.Prefix // networks that are refused whatever else is allowed

	// NoMetadata refuses link-local addresses and those of metadata services,
	// whatever Any and Allowed say.
	NoMetadata bool
}

// special are the networks without public receivers, and those whose gateways lead
// to such a network (the IANA registries of special-purpose addresses). The first
// one that contains an address names it.
var special = func() []network {
	var out []network
	for _, n := range []struct{ name, prefixes string }{
		{"an unspecified", "0.0.0.0/8 ::/128"},
		{"a loopback", "127.0.0.0/8 ::1/128"},
		{"a private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"},
		{"a link-local", "169.254.0.0/16 fe80::/10"},
		{"a shared (carrier-grade NAT)", "100.64.0.0/10"},
		{"a multicast", "224.0.0.0/4 ff00::/8"},
		{"an Azure platform", "168.63.129.16/32"},
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

// metadata are the addresses of clouds' metadata services, which give credentials to
// the machine: link-local addresses, and further known ones (Azure, Alibaba, Oracle,
// AWS, Google, Scaleway).
var metadata = func() (out []netip.Prefix) {
	for p := range strings.FieldsSeq("169.254.0.0/16 fe80::/10 168.63.129.16/32 100.100.100.200/32 192.0.0.192/32 " +
		"fd00:ec2::/64 fd20:ce::254/128 fd00:42::42/128") {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}()

// global is the allocated part of IPv6. Outrider treats the rest as private.
var global = netip.MustParsePrefix("2000::/3")

type network struct {
	prefix netip.Prefix
	name   string // with its article
}

// Control is for [net.Dialer]: it sees the address that is about to be dialled,
// after the name was resolved.
func (g Guard) Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address that can be checked: %w", address, err)
	}
	return g.Check(to.Addr())
}

// CheckHost is [Guard.Check] for the host of a URL. Names are checked when they are
// dialled.
func (g Guard) CheckHost(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.Check(addr)
	}
	return nil
}

// Check returns an error that says why an address is refused, and the fix.
func (g Guard) Check(addr netip.Addr) error {
	// Mapped and zoned addresses are other forms of the same address.
	addr = addr.Unmap().WithZone("")
	inside := within(addr)
	if contain(g.Denied, addr) || contain(g.Denied, inside) {
		return fmt.Errorf("%v is in a network of deny_networks", addr)
	}
	if g.NoMetadata && (contain(metadata, addr) || contain(metadata, inside)) {
		return fmt.Errorf("%v is a link-local address or that of a cloud's metadata service: requests never go there", addr)
	}
	if g.Any || contain(g.Allowed, addr) {
		return nil
	}
	if name := nameOf(addr); name != "" {
		return fmt.Errorf("%v is %s address, and requests go to public ones only; "+
			"if that is where they should go, add its network to allow_networks, or set allow_private", addr, name)
	}
	return nil
}

func contain(list []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// within returns the IPv4 address to which a gateway translates an IPv6 address, the
// zero value if there is none.
func within(addr netip.Addr) netip.Addr {
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return netip.Addr{}
}

// nameOf names the kind of an address, empty for public ones.
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

// CheckNetworks returns an error that names the invalid networks of a list.
func CheckNetworks(name string, list []netip.Prefix) (errs []error) {
	for _, p := range list {
		if !p.IsValid() || p.Addr().Is4In6() {
			errs = append(errs, fmt.Errorf("%s: %v is not a network such as 10.0.0.0/8 or fd00::/8", name, p))
		}
	}
	return errs
}
