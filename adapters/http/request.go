package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Headers of a request. Those of a message are sent when it is alone.
const (
	headerKey      = "Idempotency-Key"
	headerType     = "Outrider-Type"
	headerPosition = "Outrider-Position"
	headerLane     = "Outrider-Lane"
)

// maxAnswer is how much of an answer is read, so that its connection can be
// used again.
const maxAnswer = 4096

// post sends one request and returns what its answer means for all messages.
func (d *Destination) post(ctx context.Context, address string, batch []item) error {
	if ctx.Err() != nil {
		return interrupted(ctx, address, false)
	}
	limited, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	var connected atomic.Bool // written by the connection's goroutine
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	// The body is not reused: an answer may come while it is still being read.
	req, err := http.NewRequestWithContext(traced, http.MethodPost, d.target.full(address), bytes.NewReader(join(batch)))
	if err != nil {
		return outbox.Unavailable(fmt.Errorf("http: %s is not a URL that can be requested", shown(address)), 0)
	}
	d.setHeaders(req, batch)
	resp, err := d.client.Do(req)
	if err != nil {
		return d.noAnswer(ctx, limited, address, connected.Load(), err)
	}
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // it serves for a quote only
	_ = resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode < 300 || slices.Contains(d.cfg.Accept, resp.StatusCode) {
		return nil
	}
	return d.refused(resp, address, answer)
}

// join makes the array of the request.
func join(batch []item) []byte {
	size := 1
	for _, it := range batch {
		size += len(it.body) + 1
	}
	dst := append(make([]byte, 0, size), '[')
	for i, it := range batch {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, it.body...)
	}
	return append(dst, ']')
}

func (d *Destination) setHeaders(req *http.Request, batch []item) {
	h := req.Header
	h.Set("User-Agent", "Outrider")
	for k, v := range d.cfg.Headers {
		h.Set(k, v)
	}
	if v := d.cfg.Headers["Host"]; v != "" {
		req.Host = v
	}
	if d.cfg.Token != "" {
		h.Set("Authorization", "Bearer "+d.cfg.Token)
	} else if u := d.target.user; u != nil {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	h.Set("Content-Type", "application/json")
	if d.cfg.Format == format.CloudEvents {
		h.Set("Content-Type", "application/cloudevents-batch+json")
	}
	if len(batch) > 1 {
		return
	}
	msg := batch[0].msg
	setSafe(h, headerKey, msg.UUID)
	setSafe(h, headerType, msg.Metadata[outbox.MetaType])
	setSafe(h, headerPosition, msg.Metadata[outbox.MetaPosition])
	setSafe(h, headerLane, msg.Metadata[outbox.MetaLane])
}

// refused is the error of a status that is no success.
func (d *Destination) refused(resp *http.Response, address string, answer []byte) error {
	status := resp.StatusCode
	if d.statuses.kind(status) == outbox.KindSkip {
		return outbox.Skip("status " + strconv.Itoa(status))
	}
	quote := d.secrets.quote(answer)
	if quote != "" {
		quote = ": " + quote
	}
	return errorOf(d.statuses.kind(status), retryAfter(resp.Header.Get("Retry-After"), time.Now()),
		"http: %s answers %d %s%s%s", shown(address), status, http.StatusText(status),
		hint(status, d.secrets.location(resp.Header.Get("Location"))), quote)
}

// noAnswer is the error of a request without an answer. Without a connection
// nothing was sent; with one, nobody knows.
func (d *Destination) noAnswer(ctx, limited context.Context, address string, connected bool, err error) error {
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx, address, connected)
	case !connected && limited.Err() != nil:
		return outbox.Unavailable(fmt.Errorf("http: no connection to %s within %v", shown(address), d.cfg.Timeout), 0)
	case !connected:
		return outbox.Unavailable(fmt.Errorf("http: no connection to %s: %s", shown(address), d.secrets.err(err)), 0)
	case limited.Err() != nil:
		return outbox.Transient(fmt.Errorf("http: %s does not answer within %v", shown(address), d.cfg.Timeout), 0)
	}
	return outbox.Transient(fmt.Errorf("http: no answer from %s: %s", shown(address), d.secrets.err(err)), 0)
}

// interrupted is the error of a request that the caller's context ended.
func interrupted(ctx context.Context, address string, connected bool) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return outbox.Released(fmt.Errorf("http: the request to %s was called off: %w", shown(address), ctx.Err()))
	case !connected:
		return outbox.Unavailable(fmt.Errorf("http: no connection to %s in the time given: %w", shown(address), ctx.Err()), 0)
	}
	return outbox.Transient(fmt.Errorf("http: no answer from %s in the time given: %w", shown(address), ctx.Err()), 0)
}

// setSafe sets a header unless the value cannot be one: an id with a line break
// must not fail its request.
func setSafe(h http.Header, name, value string) {
	if value != "" && httpguts.ValidHeaderFieldValue(value) {
		h.Set(name, value)
	}
}
