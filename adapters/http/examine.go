package http

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/endpoint"
)

var _ adapters.Examiner = (*Destination)(nil)

// examineTimeout bounds each step of an examination.
const examineTimeout = 10 * time.Second

// Examine implements [adapters.Examiner]: it connects, checks the certificate,
// and asks with OPTIONS, without credentials and without a body. The status of
// the answer says little: many receivers know POST only.
func (d *Destination) Examine(ctx context.Context) []adapters.Finding {
	base := d.target.Base()
	ask := base.Scheme + "://" + base.Host + "/"
	note := "the URL depends on the message: only its host was checked"
	if d.target.Static() {
		if address, err := d.target.Address(message.NewMessage("", nil)); err == nil {
			ask, note = address, ""
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, ask, http.NoBody)
	if err != nil {
		return []adapters.Finding{{Level: adapters.LevelBroken, Subject: "url", Text: "no request can be made of it", Fix: "correct the url"}}
	}
	var f []adapters.Finding
	if proxy, err := http.ProxyFromEnvironment(req); !d.cfg.PublicOnly && (err != nil || proxy != nil) {
		f = append(f, adapters.Finding{Level: adapters.LevelUnknown, Subject: "connection to " + base.Host,
			Text: "a proxy from the environment is in between; only its answer can be checked"})
	} else if f = d.dial(ctx, base); f[len(f)-1].Level == adapters.LevelBroken {
		return f
	}
	f = append(f, endpoint.Ask(ctx, d.client.Transport, ask, d.outcome.Secrets.Err, d.cfg.Timeout))
	if note != "" {
		f = append(f, adapters.Finding{Level: adapters.LevelUnknown, Subject: "url", Text: note})
	}
	return f
}

func (d *Destination) dial(ctx context.Context, base *url.URL) []adapters.Finding {
	port := base.Port()
	var config *tls.Config
	if base.Scheme == "https" {
		config = d.cfg.TLS.Clone()
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if port == "" {
			port = "443"
		}
	}
	if port == "" {
		port = "80"
	}
	return endpoint.DialBy(ctx, d.dialer, net.JoinHostPort(base.Hostname(), port), config, min(d.cfg.ConnectTimeout, examineTimeout))
}
