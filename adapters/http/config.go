package http

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/httpx"
	"github.com/outriderhq/outrider/internal/guard"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Config configures a [Destination]. URL is required.
type Config struct {
	// URL is where to post to. The path and the query may hold placeholders,
	// see [format.Address]; their values are escaped. User information is
	// sent as basic authentication.
	URL string

	// Format is [format.Raw] (the default), [format.CloudEvents], or
	// [format.Watermill]: one message per request, as watermill-http's Publisher
	// sends it and its Subscriber reads it.
	Format format.Format

	// CloudEventsSource is the source attribute of format cloudevents.
	// Default: "outrider".
	CloudEventsSource string

	// Token is sent as a bearer token.
	Token string

	// Headers are sent with every request.
	Headers map[string]string

	// TLS configures TLS; nil: the system's roots.
	TLS *tls.Config

	// PublicOnly lets requests go to public addresses only, past no proxy.
	// Link-local addresses and those of the clouds' metadata services are
	// refused always.
	PublicOnly bool

	// AllowNetworks are networks that requests may go to although their
	// addresses are not public, DenyNetworks those that they never go to. A proxy
	// of the environment dials by itself: these then are about its own address.
	AllowNetworks, DenyNetworks []netip.Prefix

	// ConnectTimeout bounds making a connection, including TLS. Default: 10 s.
	ConnectTimeout time.Duration

	// Timeout bounds a request until its answer is read. Default: 30 s.
	Timeout time.Duration

	// MaxMessages, MaxBytes (of payload) and MaxGroups bound one request.
	// Defaults: 100 (1 with format watermill), 1 MiB and any number.
	MaxMessages, MaxBytes, MaxGroups int

	// ShowPayload has errors quote what an answer repeats of payloads. Otherwise each value is replaced by ***.
	ShowPayload bool

	// MaxRequests bounds the requests that are in flight at once.
	// Default: adapters.DefaultMaxRequests.
	MaxRequests int

	// Statuses says what a status means where it differs from
	// [DefaultStatuses]. 2xx is always success.
	Statuses map[int]outbox.Kind

	// Accept are statuses, in addition to 2xx, that mean success, for example 409 of a
	// receiver that has the message already.
	Accept []int

	// Whole makes a status that refuses a request count for every message of it,
	// instead of looking for the one that it is about (permanent) or charging the
	// first of each group (transient).
	Whole bool

	// Items makes the body of a request {"items": [...]}, and has the answer give the result of each:
	// {"results": [{"status": "SUCCESS"}]}, in their order. A request then has one message of each group at most,
	// because the receiver may refuse one and take the next. It takes format raw.
	Items bool

	// Paths are appended to the URL, by the kind of the messages
	// (outbox.MetaKind); "" is for those that have none. A message of a kind that
	// is not in it has no address, which is permanent. The URL must then have no
	// placeholders and no query. nil: all messages go to the URL.
	Paths map[string]string
}

// Defaults of [Config].
const (
	DefaultConnectTimeout = 10 * time.Second
	DefaultTimeout        = 30 * time.Second
	DefaultMaxMessages    = 100
	DefaultMaxBytes       = 1 << 20
	DefaultSource         = "outrider"
)

// WithDefaults returns the configuration completed, or all that is wrong with it.
func (c Config) WithDefaults() (Config, error) {
	f, formatErr := format.Parse(string(c.Format))
	if f == format.Debezium {
		formatErr = errors.New("format debezium is one of message brokers: use raw, cloudevents or watermill")
	}
	if f == format.Watermill {
		if c.MaxMessages > 1 {
			formatErr = errors.New("max messages: a request of format watermill is one message: leave it out")
		}
		c.MaxMessages = 1
	}
	if c.Items && f != format.Raw {
		formatErr = errors.Join(formatErr, errors.New("items: they are payloads: leave the format out"))
	}
	c.Format = f
	setDefault(&c.CloudEventsSource, DefaultSource)
	setDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.MaxMessages, DefaultMaxMessages)
	setDefault(&c.MaxBytes, DefaultMaxBytes)
	setDefault(&c.MaxRequests, adapters.DefaultMaxRequests)
	errs := []error{formatErr}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"max messages", int64(c.MaxMessages)}, {"max bytes", int64(c.MaxBytes)},
		{"max groups", int64(c.MaxGroups)}, {"max requests", int64(c.MaxRequests)},
		{"connect timeout", int64(c.ConnectTimeout)}, {"timeout", int64(c.Timeout)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", n.name))
		}
	}
	errs = append(errs, guard.CheckNetworks("allow networks", c.AllowNetworks)...)
	errs = append(errs, guard.CheckNetworks("deny networks", c.DenyNetworks)...)
	errs = append(errs, c.checkHeaders()...)
	errs = append(errs, httpx.CheckStatuses(c.Statuses, c.Accept)...)
	return c, errors.Join(errs...)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// checkHeaders names headers that cannot be sent. It never quotes a value.
func (c Config) checkHeaders() []error {
	var errs []error
	if !httpguts.ValidHeaderFieldValue(c.Token) {
		errs = append(errs, errors.New("token: has a character that no header can hold (a line break?)"))
	}
	errs = append(errs, httpx.CheckHeaders(c.Headers, ours)...)
	for name := range c.Headers {
		if strings.EqualFold(name, "Authorization") && c.Token != "" {
			errs = append(errs, errors.New("headers: Authorization is given beside a token: use one of them"))
		}
	}
	return errs
}

// ours reports whether a header is set for each request.
func ours(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Type", "Content-Length", "Transfer-Encoding",
		HeaderWatermillUUID, HeaderWatermillMetadata, httpx.HeaderKey, httpx.HeaderType, httpx.HeaderPosition, httpx.HeaderLane:
		return true
	}
	return httpx.Reserved(name)
}

// maxHeaders bounds the headers of an answer, in bytes.
const maxHeaders = 64 << 10

// guard decides which addresses may be dialled.
func (c Config) guard() httpx.Guard {
	return httpx.Guard{Any: !c.PublicOnly, Allowed: c.AllowNetworks, Denied: c.DenyNetworks, NoMetadata: true}
}

// dialer returns a dialer that checks every address with the guard.
func (c Config) dialer() *net.Dialer {
	return &net.Dialer{Timeout: c.ConnectTimeout, KeepAlive: 30 * time.Second, Control: c.guard().Control}
}

// writeBuffer takes a whole request of a hundred items of some hundred bytes, which
// then leaves in one write.
const writeBuffer = 64 << 10

// transport returns a transport that keeps a connection for every request that
// can be in flight.
func (c Config) transport(dialer *net.Dialer) *http.Transport {
	proxy := http.ProxyFromEnvironment
	if c.PublicOnly {
		proxy = nil // it would resolve names itself and dial what it likes
	}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		MaxResponseHeaderBytes: maxHeaders,
		TLSHandshakeTimeout:    c.ConnectTimeout,
		TLSClientConfig:        c.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		HTTP2:                  httpx.HTTP2(c.Timeout),
		MaxIdleConnsPerHost:    c.MaxRequests,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true, // answers are short and read as they are
		WriteBufferSize:        writeBuffer,
	}
}
