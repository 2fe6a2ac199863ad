package webhook

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/internal/httpx"
	"github.com/outriderhq/outrider/outbox/format"
)

// maxDrain is how much of an answer is read beyond what is wanted of it, so that
// its connection can be used again.
const maxDrain = 64 << 10

// send delivers one message.
func (d *Destination) send(ctx context.Context, address string, msg *message.Message) error {
	if ctx.Err() != nil {
		return d.outcome.Interrupted(ctx, address, false)
	}
	body, err := d.body(msg)
	if err != nil {
		return err
	}
	if err := checkID(msg.UUID); err != nil {
		return err
	}
	h := newHeaders(d.prepared)
	if err := d.describe(h, msg); err != nil {
		return err
	}
	to, err := d.url(address)
	if err != nil {
		return d.outcome.NoRequest(address)
	}
	if err := d.limits.wait(ctx, httpx.Shown(address), address); err != nil {
		return err
	}
	// Signed at the last moment: receivers refuse what is older than minutes.
	timestamp := strconv.FormatInt(d.now().Unix(), 10)
	h.put(headerID, msg.UUID)
	h.put(headerTimestamp, timestamp)
	h.put(headerSignature, d.signer.signature(msg.UUID, timestamp, body))
	return d.post(ctx, address, to, h.Header, body, msg.Payload)
}

// body returns what is signed and sent.
func (d *Destination) body(msg *message.Message) ([]byte, error) {
	if d.cfg.Format == format.CloudEvents {
		return format.AppendCloudEvent(make([]byte, 0, len(msg.Payload)+512), d.cfg.CloudEventsSource, msg)
	}
	return msg.Payload, nil
}

// url returns the URL to request for an address.
func (d *Destination) url(address string) (*url.URL, error) {
	if d.fixed != nil {
		return d.fixed, nil
	}
	return url.Parse(d.target.Full(address))
}

// post makes the request and returns what its answer means. The transport is
// asked directly: a client would look for redirects and cookies.
func (d *Destination) post(ctx context.Context, address string, to *url.URL, h http.Header, body, payload []byte) error {
	limited, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	var connected atomic.Bool // written by the connection's goroutine
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req := d.request.WithContext(traced)
	req.URL, req.Header = to, h
	httpx.Body(req, func() io.Reader { return bytes.NewReader(body) }, int64(len(body)))
	resp, err := d.transport.RoundTrip(req)
	if err != nil {
		return d.outcome.NoAnswer(ctx, limited, address, connected.Load(), err, payload)
	}
	httpx.Bounded(resp)
	defer func() { _ = resp.Body.Close() }()
	if d.outcome.Statuses.Success(resp.StatusCode) {
		drain(resp)
		return nil
	}
	answer := d.outcome.Read(resp.Body, d.outcome.Quote+1) // one more shows that there is more
	drain(resp)
	return d.outcome.Refused(resp, address, answer, payload)
}

// drain reads the rest of an answer, within bounds. It ignores errors: the status has
// been read.
func drain(resp *http.Response) {
	if resp.ContentLength != 0 {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	}
}
