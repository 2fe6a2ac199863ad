package kafka

import (
	"context"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/testenv"
)

// viaProxy makes every client of the destination connect through the proxy,
// whatever address the broker advertises.
func viaProxy(t *testing.T, p *testenv.Proxy, d *Destination) *Destination {
	t.Helper()
	d.pool.close()
	d.pool = newPool(append(d.pool.opts, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, p.Address())
	})), d.cfg.Clients)
	return d
}
