package http

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	wmhttp "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/httpx"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Destination posts batches. It is an [adapters.Destination]; its methods may be
// called concurrently.
type Destination struct {
	cfg     Config
	target  *httpx.Target
	paths   map[string]string // addresses by kind; nil: the target's
	outcome httpx.Outcome
	client  *http.Client
	dialer  *net.Dialer
	stock   *wmhttp.Publisher // of format watermill, whose requests are one message each; nil: of another format
}

var _ adapters.Destination = (*Destination)(nil)

// DefaultStatuses are the kinds of statuses that [Config.Statuses] says nothing
// about. Those that are in neither follow from their class: 3xx is unavailable,
// 4xx permanent, 5xx transient.
func DefaultStatuses() map[int]outbox.Kind { return httpx.DefaultStatuses() }

// maxQuote is how many bytes of an answer an error quotes.
const maxQuote = 200

// New returns a destination, or an error that lists what is wrong with the
// configuration. It does not connect.
func New(cfg Config) (*Destination, error) {
	cfg, err := cfg.WithDefaults()
	target, urlErr := httpx.NewTarget(cfg.URL)
	paths, pathsErr := cfg.addresses()
	if urlErr == nil {
		if err := cfg.guard().CheckHost(target.Base().Hostname()); err != nil {
			urlErr = fmt.Errorf("url: %w", err)
		}
	}
	if err := errors.Join(urlErr, err, pathsErr); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	dialer := cfg.dialer()
	d := &Destination{
		cfg:    cfg,
		dialer: dialer,
		target: target,
		paths:  paths,
		outcome: httpx.Outcome{
			Name:     "http",
			Timeout:  cfg.Timeout,
			Quote:    maxQuote,
			Statuses: httpx.NewStatuses(DefaultStatuses(), cfg.Statuses, cfg.Accept),
			Secrets:  httpx.NewRedactor(append(httpx.HeaderSecrets(cfg.Headers), append(target.Secrets(), cfg.Token)...)),

			ShowPayload: cfg.ShowPayload,
		},
		client: &http.Client{
			Transport:     cfg.transport(dialer),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if cfg.Format == format.Watermill {
		if d.stock, err = newStock(d.client); err != nil {
			return nil, fmt.Errorf("http: %w", err)
		}
	}
	return d, nil
}

// Address renders the URL without user information and without the part of the
// query that is the same for all messages. A value that the message lacks is a
// permanent error, and so is a kind that [Config.Paths] does not know.
func (d *Destination) Address(msg *message.Message) (string, error) {
	if d.paths != nil {
		return d.pathOf(msg)
	}
	return d.target.Address(msg)
}

// Ordering declares one request per group at a time, and the configured bounds.
func (d *Destination) Ordering() adapters.Ordering {
	perGroup := 0
	if d.cfg.Items {
		perGroup = 1
	}
	return adapters.Ordering{
		Unit:        adapters.UnitGroup,
		MaxMessages: d.cfg.MaxMessages,
		MaxBytes:    d.cfg.MaxBytes,
		MaxGroups:   d.cfg.MaxGroups,
		MaxRequests: d.cfg.MaxRequests,
		PerGroup:    perGroup,
		Static:      d.target.Static() && d.paths == nil,
		Pooled:      d.paths != nil,
		Whole:       d.cfg.Whole && !d.cfg.Items,
	}
}

// Close closes idle connections.
func (d *Destination) Close() error {
	d.client.CloseIdleConnections()
	return nil
}
