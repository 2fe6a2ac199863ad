package http

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/httpx"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// maxAnswer is how much of an answer is read, so that its connection can be
// used again.
const maxAnswer = 4096

// post sends one request and returns what its answer means for all messages or, without an error,
// for each of them; nil: all were delivered.
func (d *Destination) post(ctx context.Context, address string, batch []item) ([]error, error) {
	if ctx.Err() != nil {
		return nil, d.outcome.Interrupted(ctx, address, false)
	}
	limited, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	var connected atomic.Bool // written by the connection's goroutine
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	open, size := d.body(batch)
	req, err := d.newRequest(traced, address, batch)
	if err != nil {
		return nil, d.outcome.NoRequest(address)
	}
	d.setHeaders(req, batch)
	httpx.Body(req, open, size)
	resp, err := d.do(req, batch)
	if err != nil {
		err = d.outcome.NoAnswer(ctx, limited, address, connected.Load(), err, payloads(batch)...)
		if d.cfg.Items {
			return nil, coded(err, codeGateway, false)
		}
		return nil, err
	}
	httpx.Bounded(resp)
	most := maxAnswer
	if d.cfg.Items {
		most = maxResults
	}
	answer := d.outcome.Read(resp.Body, most)
	_ = resp.Body.Close()
	switch {
	case !d.outcome.Statuses.Success(resp.StatusCode):
	case d.cfg.Items && resp.StatusCode < 300: // one that is accepted besides has no results
		return d.results(address, answer, batch)
	default:
		return nil, nil
	}
	err = d.outcome.Refused(resp, address, answer, payloads(batch)...)
	switch {
	case d.cfg.Items:
		return nil, coded(err, codeOf(resp.StatusCode), true)
	case d.cfg.Whole:
		return nil, coded(err, "", true)
	}
	return nil, err
}

// payloads are those of the messages of a request.
func payloads(batch []item) [][]byte {
	var out [][]byte
	for _, it := range batch {
		out = append(out, adapters.PayloadOf(it.msg))
	}
	return out
}

func (d *Destination) setHeaders(req *http.Request, batch []item) {
	h := req.Header
	h.Set("User-Agent", httpx.UserAgent)
	for k, v := range d.cfg.Headers {
		h.Set(k, v)
	}
	if v := d.cfg.Headers["Host"]; v != "" {
		req.Host = v
	}
	if d.cfg.Token != "" {
		h.Set("Authorization", "Bearer "+d.cfg.Token)
	} else if u := d.target.User; u != nil {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	switch d.cfg.Format {
	case format.CloudEvents:
		h.Set("Content-Type", "application/cloudevents-batch+json")
	case format.Watermill: // watermill-http's marshaler says nothing of the type
	default:
		h.Set("Content-Type", "application/json")
	}
	if len(batch) > 1 {
		return
	}
	msg := batch[0].msg
	setSafe(h, httpx.HeaderKey, msg.UUID)
	setSafe(h, httpx.HeaderType, msg.Metadata[outbox.MetaType])
	setSafe(h, httpx.HeaderPosition, msg.Metadata[outbox.MetaPosition])
	setSafe(h, httpx.HeaderLane, msg.Metadata[outbox.MetaLane])
	httpx.Poison(msg.Metadata, h.Set)
}

// setSafe sets a header if the value can be one.
func setSafe(h http.Header, name, value string) {
	if httpx.Safe(value) {
		h.Set(name, value)
	}
}
