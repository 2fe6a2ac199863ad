package demo

import (
	"fmt"
	"strings"
)

// region is a receiver and the customers that it serves.
type region struct {
	name      string
	customers []string
}

// regions are the regions of the shop's customers. Each customer has several
// accounts; an account is a group, whose orders must arrive in order.
var regions = []region{
	{"north", []string{"heron", "kite", "osprey"}},
	{"south", []string{"egret", "falcon", "ibis"}},
	{"west", []string{"avocet", "curlew", "plover"}},
}

// accountsPerCustomer is the number of groups of a customer.
const accountsPerCustomer = 5

// Who fails: one customer's endpoint, and later the receiver of a whole region.
const (
	failingCustomer = "heron" // of the north
	failingRegion   = "south"
)

// Config is the demo's configuration, as a user would write it. The addresses
// are placeholders: a running demo takes free ports and a temporary folder.
func Config() string {
	addresses := map[string]string{}
	for i, g := range regions {
		addresses[g.name] = fmt.Sprintf("127.0.0.1:%d", 9001+i)
	}
	return configText("shop.db", "127.0.0.1:8080", overHTTP(addresses), DefaultRate)
}

// overHTTP returns the destination of a region for receivers at addresses, by region.
func overHTTP(addresses map[string]string) func(region string) string {
	return func(region string) string {
		return fmt.Sprintf(`
    type: http
    url: "http://%s/{{.Tenant}}/orders"
    batch: {max_messages: 50}`, addresses[region])
	}
}

// configText writes the configuration for a database, the address of the dashboard, the
// destinations of the regions, and the shop's rate.
func configText(path, dashboard string, destination func(region string) string, rate float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Orders of a shop, to a receiver in each region, in order per account (the group).
admin: {listen: %q, anonymous: admin} # nothing here can be harmed
sources:
  shop:
    type: sqlite
    path: %q
    poll: {max: 100ms}
destinations:
`, dashboard, path)
	for _, g := range regions {
		fmt.Fprintf(&b, "  %s:%s\n", g.name, destination(g.name))
	}
	b.WriteString("routes:\n")
	for _, g := range regions {
		fmt.Fprintf(&b, `  %[1]s:
    from: shop
    match: {types: ["order.*"], tenants: [%[2]s]}
    to: %[1]s
    window: %[3]d # small for the rate, so that waiting groups are soon parked
    middleware: # outermost first
      - poison: {then: hold}
      - retry: {attempts: 20, base: 100ms, max: 1s}
      - timeout: 30s
`, g.name, strings.Join(g.customers, ", "), window(rate))
	}
	return b.String()
}

// window is small, so that half of it fills within a few seconds when a receiver
// accepts nothing: then waiting groups are parked, which the demo shows.
func window(rate float64) int { return int(min(max(rate/6, 32), 16384)) }
