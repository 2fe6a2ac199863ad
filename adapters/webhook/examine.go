package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/endpoint"
)

var _ adapters.Examiner = (*Destination)(nil)

// Examine implements [adapters.Examiner]: the name is resolved, the addresses held
// against those that may be dialled, a connection made as deliveries make it, the
// certificate checked, and OPTIONS asked, unsigned and without a body.
func (d *Destination) Examine(ctx context.Context) []adapters.Finding {
	base := d.target.Base()
	port := base.Port()
	var config *tls.Config
	switch base.Scheme {
	case "https":
		config = tlsFor(d.cfg.TLS, base.Hostname())
		if port == "" {
			port = "443"
		}
	default:
		if port == "" {
			port = "80"
		}
	}
	f := []adapters.Finding{d.examineName(ctx, base.Hostname())}
	f = append(f, endpoint.DialBy(ctx, d.dialer, net.JoinHostPort(base.Hostname(), port), config, d.cfg.ConnectTimeout)...)
	if f[len(f)-1].Level == adapters.LevelBroken {
		return f
	}
	ask := base.Scheme + "://" + base.Host + "/"
	if d.fixed != nil {
		if address, err := d.target.Address(message.NewMessage("", nil)); err == nil {
			ask = address
		}
	}
	f = append(f, endpoint.Ask(ctx, d.transport, ask, d.outcome.Secrets.Err, d.cfg.Timeout))
	if d.fixed == nil {
		f = append(f, adapters.Finding{Level: adapters.LevelUnknown, Subject: "url", Text: "the URL depends on the message: only its host was checked"})
	}
	return f
}

// examineName resolves a host and reports which of its addresses are refused.
func (d *Destination) examineName(ctx context.Context, host string) adapters.Finding {
	f := adapters.Finding{Subject: "DNS of " + host}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		f.Level, f.Text, f.Fix = adapters.LevelBroken, err.Error(), "correct the host's name, or the name server that this host asks"
		return f
	}
	var all []string
	var refused []error
	for _, addr := range found {
		all = append(all, addr.Unmap().String())
		if err := d.guard.Check(addr); err != nil {
			refused = append(refused, err)
		}
	}
	f.Text = strings.Join(all, ", ")
	if _, err := netip.ParseAddr(host); err == nil {
		f.Text = "an address needs none"
	}
	if len(refused) == 0 {
		return f
	}
	f = adapters.FindingsOf(f.Subject, refused[0])[0]
	if len(refused) < len(found) {
		f.Level = adapters.LevelWarning
		f.Text = fmt.Sprintf("%s; %d of its %d addresses are refused", f.Text, len(refused), len(found))
	}
	return f
}
