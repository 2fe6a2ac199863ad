package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/httpx"
	"github.com/outriderhq/outrider/internal/guard"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// CloudEventsBinary is the format whose body is the payload and whose ce-
// headers are the attributes of a CloudEvent. [format.CloudEvents] is the
// structured mode.
const CloudEventsBinary format.Format = "cloudevents-binary"

// Config configures a [Destination]. URL and Secrets are required.
type Config struct {
	// URL is where to post to. The path and the query may hold placeholders,
	// see [format.Address]; their values are escaped. User information is
	// sent as basic authentication.
	URL string

	// Secrets sign every request, each with a signature of its own: "whsec_"
	// and 24 to 64 bytes in base64 (HMAC-SHA256, scheme v1), or "whsk_" and an
	// Ed25519 key in base64 (scheme v1a): the seed of 32 bytes, or seed and
	// public key. To rotate, put the new one before the old one, and remove
	// the old one once every receiver knows the new one.
	Secrets []string

	// Format is [format.Raw] (the default), [format.CloudEvents] or
	// [CloudEventsBinary].
	Format format.Format

	// CloudEventsSource is the source attribute of events. Default: "outrider".
	CloudEventsSource string

	// Headers are sent with every request.
	Headers map[string]string

	// PassHeaders names the headers of messages that [CloudEventsBinary] passes on,
	// in lower case; one that ends with * names all that begin so. Together they have
	// at most 8 KiB; a message with more is refused. Headers that Outrider sets, and
	// those that begin with Outrider-, are never passed on. nil:
	// [DefaultPassHeaders].
	PassHeaders []string

	// TLS configures TLS; nil: the system's roots.
	TLS *tls.Config

	// ConnectTimeout bounds making a connection, including TLS. Default: 10 s.
	ConnectTimeout time.Duration

	// Timeout bounds a request until its answer is read. Default: 30 s.
	Timeout time.Duration

	// ShowPayload has errors quote what an answer repeats of payloads. Otherwise each value is replaced by ***.
	ShowPayload bool

	// MaxRequests bounds the requests of a route that are in flight at once.
	// A group has at most one. Default: adapters.DefaultMaxRequests.
	MaxRequests int

	// Rate is how many requests per second one address (a rendered URL) gets,
	// and Burst how many of them at once after a quiet time. Defaults: no
	// bound, and the requests of one second (at least 1).
	Rate  float64
	Burst int

	// AllowPrivate lets requests go to any address. Default: public ones only.
	AllowPrivate bool

	// AllowNetworks are networks that requests may go to although their
	// addresses are not public.
	AllowNetworks []netip.Prefix

	// DenyNetworks are networks that requests never go to, whatever is allowed.
	DenyNetworks []netip.Prefix

	// Capture is how many bytes of a refusing answer its error quotes.
	// Default: 4 KiB. Negative: none.
	Capture int

	// Statuses says what a status means where it differs from
	// [DefaultStatuses]. 2xx is always success.
	Statuses map[int]outbox.Kind

	// Accept are statuses, in addition to 2xx, that mean success.
	Accept []int
}

// DefaultPassHeaders returns the headers that are passed on by default: those of
// tracing, and extension attributes of CloudEvents.
func DefaultPassHeaders() []string { return []string{"traceparent", "tracestate", "ce-*"} }

// maxPassed bounds the headers of a message that are passed on, in bytes.
const maxPassed = 8 << 10

// Defaults of [Config].
const (
	DefaultConnectTimeout = 10 * time.Second
	DefaultTimeout        = 30 * time.Second
	DefaultCapture        = 4 << 10
	DefaultSource         = "outrider"
)

// DefaultStatuses are the kinds of statuses that [Config.Statuses] says nothing
// about: what they mean to package http, but for 400, which is transient. Many
// receivers answer 400 to a signature that they cannot verify, and a secret
// that is wrong must not make every message dead.
func DefaultStatuses() map[int]outbox.Kind {
	table := httpx.DefaultStatuses()
	table[http.StatusBadRequest] = outbox.KindTransient
	return table
}

// WithDefaults returns the configuration completed, or all that is wrong with it.
func (c Config) WithDefaults() (Config, error) {
	var errs []error
	switch c.Format {
	case "":
		c.Format = format.Raw
	case format.Raw, format.CloudEvents, CloudEventsBinary:
	default:
		errs = append(errs, fmt.Errorf("format: %q is not one of webhooks: use raw, cloudevents or cloudevents-binary", c.Format))
	}
	for _, n := range []struct {
		name  string
		value float64
	}{
		{"max requests", float64(c.MaxRequests)}, {"rate", c.Rate}, {"burst", float64(c.Burst)},
		{"connect timeout", float64(c.ConnectTimeout)}, {"timeout", float64(c.Timeout)},
	} {
		if !(n.value >= 0 && n.value <= math.MaxFloat64) {
			errs = append(errs, fmt.Errorf("%s: must not be negative, nor infinite", n.name))
		}
	}
	setDefault(&c.CloudEventsSource, DefaultSource)
	if c.PassHeaders == nil {
		c.PassHeaders = DefaultPassHeaders()
	}
	setDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.MaxRequests, adapters.DefaultMaxRequests)
	setDefault(&c.Burst, int(max(1, math.Ceil(min(c.Rate, math.MaxInt32)))))
	setDefault(&c.Capture, DefaultCapture)
	c.Capture = max(c.Capture, 0)
	errs = append(errs, guard.CheckNetworks("allow networks", c.AllowNetworks)...)
	errs = append(errs, guard.CheckNetworks("deny networks", c.DenyNetworks)...)
	errs = append(errs, httpx.CheckHeaders(c.Headers, ours)...)
	errs = append(errs, httpx.CheckStatuses(c.Statuses, c.Accept)...)
	return c, errors.Join(errs...)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// ours reports whether a header is set for each request.
func ours(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Type", "Content-Length", "Transfer-Encoding",
		httpx.HeaderKey, httpx.HeaderType, httpx.HeaderPosition, httpx.HeaderLane:
		return true
	}
	name = strings.ToLower(name)
	return httpx.Reserved(name) || strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, attributePrefix)
}
