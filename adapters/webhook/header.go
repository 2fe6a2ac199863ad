package webhook

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/net/http/httpguts"

	"github.com/outriderhq/outrider/adapters/internal/httpx"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Headers of Standard Webhooks, in the case that the standard writes them.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// attributePrefix begins the headers that hold attributes of a CloudEvent.
const attributePrefix = "ce-"

// prepare returns the headers that all requests share.
func prepare(cfg Config, target *httpx.Target) http.Header {
	h := http.Header{"User-Agent": {httpx.UserAgent}}
	if u := target.User; u != nil {
		password, _ := u.Password()
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	for k, v := range cfg.Headers {
		h.Set(k, v)
	}
	h.Del("Host") // not sent as a header: see hostHeader
	if cfg.Format == format.CloudEvents {
		h.Set("Content-Type", "application/cloudevents+json")
	}
	return h
}

// hostHeader is the configured host of requests; empty: the
// URL's.
func hostHeader(configured map[string]string) string {
	for k, v := range configured {
		if strings.EqualFold(k, "Host") {
			return v
		}
	}
	return ""
}

// headers builds the headers of one request: the prepared ones and its own,
// whose values lie in one array.
type headers struct {
	http.Header
	values []string
}

// most is how many headers of its own a request usually has.
const most = 12

func newHeaders(prepared http.Header) *headers {
	h := &headers{make(http.Header, len(prepared)+most), make([]string, 0, most)}
	maps.Copy(h.Header, prepared)
	return h
}

// put sets a header unless the value cannot be one. The name is written as it
// stands.
func (h *headers) put(name, value string) {
	if !httpx.Safe(value) {
		return
	}
	n := len(h.values)
	h.values = append(h.values, value)
	h.Header[name] = h.values[n : n+1 : n+1]
}

// describe adds what identifies and describes the message, in the way of the
// format.
func (d *Destination) describe(h *headers, msg *message.Message) error {
	h.put(httpx.HeaderKey, msg.UUID)
	h.put(httpx.HeaderType, msg.Metadata[outbox.MetaType])
	h.put(httpx.HeaderPosition, msg.Metadata[outbox.MetaPosition])
	h.put(httpx.HeaderLane, msg.Metadata[outbox.MetaLane])
	httpx.Poison(msg.Metadata, h.put)
	if d.cfg.Format == CloudEventsBinary {
		return d.attributes(h, msg)
	}
	if d.cfg.Format == format.Raw {
		h.put("Content-Type", format.ContentType(msg))
		h.put("Traceparent", msg.Metadata["traceparent"])
		h.put("Tracestate", msg.Metadata["tracestate"])
	}
	return nil
}

// attributes adds the attributes of the event, and the application's own
// headers as far as a request can have them.
func (d *Destination) attributes(h *headers, msg *message.Message) error {
	list, err := d.encode(make([]format.Header, 0, most), msg)
	if err != nil {
		return err
	}
	passed := 0
	for _, it := range list {
		name, isAttribute := strings.CutPrefix(it.Key, attributePrefix)
		if it.Key != "content-type" && (!isAttribute || !format.IsAttribute(name)) { // the application's
			if !d.passes(it.Key) {
				continue
			}
			if passed += len(it.Key) + len(it.Value); passed > maxPassed {
				return outbox.Permanent(fmt.Errorf("webhook: the headers of message %s that are to be passed on have more than %d bytes: "+
					"pass fewer of them (pass_headers), or move data into the payload", shorten.To(msg.UUID, shownID), maxPassed))
			}
		}
		switch {
		case it.Key == "content-type":
			h.put("Content-Type", it.Value)
		case isAttribute && attributeName(name):
			h.put(it.Key, format.Escape(it.Value))
		case !ours(it.Key) && !framing(it.Key) && httpguts.ValidHeaderFieldName(it.Key):
			name := http.CanonicalHeaderKey(it.Key)
			if _, taken := d.prepared[name]; !taken {
				h.put(name, it.Value)
			}
		}
	}
	return nil
}

// shownID is how much of an id an error says.
const shownID = 128

// passes reports whether a header of the message is to be passed on.
func (d *Destination) passes(key string) bool {
	key = strings.ToLower(key)
	for _, pattern := range d.cfg.PassHeaders {
		if start, open := strings.CutSuffix(pattern, "*"); key == pattern || open && strings.HasPrefix(key, start) {
			return !httpx.Reserved(key)
		}
	}
	return false
}

func attributeName(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// framing reports whether a header is about the request and not about the
// message: an application's header of that name stays behind.
func framing(name string) bool {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Accept-Encoding", "Authorization", "Connection", "Cookie", "Expect", "Host", "Keep-Alive",
		"Te", "Trailer", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Proxy-")
}
