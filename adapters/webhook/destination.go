package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/httpx"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Destination sends webhooks. It is an [adapters.Destination]; its methods may be
// called concurrently.
type Destination struct {
	cfg      Config
	target   *httpx.Target
	outcome  httpx.Outcome
	signer   signer
	limits   *limits
	encode   format.Headers // the attributes of an event as headers
	prepared http.Header    // of all requests; never changed
	request  *http.Request  // what else all requests share; never changed
	fixed    *url.URL       // the URL of all requests; nil: it depends on the message

	guard     httpx.Guard
	dialer    *net.Dialer
	transport *http.Transport
	now       func() time.Time
}

var (
	_ adapters.Destination = (*Destination)(nil)
	_ adapters.Checker     = (*Destination)(nil)
)

// New returns a destination, or an error that lists what is wrong with the
// configuration. It does not connect.
func New(cfg Config) (*Destination, error) {
	cfg, err := cfg.WithDefaults()
	signer, keyErr := newSigner(cfg.Secrets)
	guard := httpx.Guard{Any: cfg.AllowPrivate, Allowed: cfg.AllowNetworks, Denied: cfg.DenyNetworks}
	target, fixed, urlErr := parseURL(cfg.URL, guard)
	if err := errors.Join(urlErr, keyErr, err); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	dialer := cfg.dialer(guard)
	return &Destination{
		cfg:      cfg,
		target:   target,
		fixed:    fixed,
		signer:   signer,
		limits:   newLimits(cfg.Rate, cfg.Burst),
		encode:   format.CloudEventHeaders(cfg.CloudEventsSource, attributePrefix),
		prepared: prepare(cfg, target),
		request:  &http.Request{Method: http.MethodPost, Host: hostHeader(cfg.Headers), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1},
		outcome: httpx.Outcome{
			Name: "webhook", Timeout: cfg.Timeout, Quote: cfg.Capture,
			Statuses: httpx.NewStatuses(DefaultStatuses(), cfg.Statuses, cfg.Accept),
			Secrets:  httpx.NewRedactor(cfg.unquotable(target)), ShowPayload: cfg.ShowPayload,
		},
		guard:     guard,
		dialer:    dialer,
		transport: cfg.transport(dialer),
		now:       time.Now,
	}, nil
}

// parseURL returns the URL taken apart, and whole if all messages share it. An
// address in it that would be refused whenever it is dialled is an error now.
func parseURL(text string, guard httpx.Guard) (*httpx.Target, *url.URL, error) {
	target, err := httpx.NewTarget(text)
	if err != nil {
		return nil, nil, err
	}
	if err := guard.CheckHost(target.Base().Hostname()); err != nil {
		return nil, nil, fmt.Errorf("url: %w", err)
	}
	if !target.Static() {
		return target, nil, nil
	}
	address, err := target.Address(message.NewMessage("", nil))
	if err != nil {
		return nil, nil, err
	}
	fixed, err := url.Parse(target.Full(address))
	if err != nil {
		return nil, nil, errors.New("url: has a path or query that is not escaped rightly")
	}
	return target, fixed, nil
}

// unquotable returns what answers must not be quoted with.
func (c Config) unquotable(target *httpx.Target) []string {
	secrets := append(target.Secrets(), httpx.HeaderSecrets(c.Headers)...)
	for _, s := range c.Secrets {
		_, encoded, _ := strings.Cut(s, "_")
		secrets = append(secrets, s, encoded)
	}
	return secrets
}

// Address renders the URL without user information and without the part of the
// query that is the same for all messages. A value that the message lacks is a
// permanent error.
func (d *Destination) Address(msg *message.Message) (string, error) {
	return d.target.Address(msg)
}

// Ordering declares one message per request, one request per group at a time,
// and the configured bound.
func (d *Destination) Ordering() adapters.Ordering {
	return adapters.Ordering{
		Unit: adapters.UnitGroup, MaxMessages: 1, MaxRequests: d.cfg.MaxRequests, Static: d.target.Static(),
	}
}

var errBehind = outbox.Released(errors.New("webhook: held back: an earlier message was not delivered"))

// Deliver implements [adapters.Destination]. A batch has one message; should it
// have more, the messages behind one that failed are released.
func (d *Destination) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	var errs []error
	for i, msg := range batch {
		if errs != nil {
			errs[i] = errBehind
		} else if err := d.send(ctx, address, msg); err != nil {
			errs = make([]error, len(batch))
			errs[i] = err
		}
	}
	return errs
}

// Close closes idle connections.
func (d *Destination) Close() error {
	d.transport.CloseIdleConnections()
	return nil
}
