package config

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
	"github.com/outriderhq/outrider/internal/guard"
)

// HTTP posts batches of messages to an endpoint.
type HTTP struct {
	Preset         string                      `yaml:"preset" enum:"flowcatalyst|flowcatalyst-v2" doc:"Completes the destination for a known API. flowcatalyst: url is the base URL of its API, events and dispatch jobs go to /api/events/batch and /api/dispatch/jobs/batch, max_requests is 10 and batch.max_groups 1 by default, and a status of 400 or more that does not mean that the platform is unavailable is a failed attempt of all items of the request (docs/flowcatalyst.md). flowcatalyst-v2 is the API of its current SDKs: {items: [...]} with a result for each item (docs/flowcatalyst-v2.md)."`
	URL            Template                    `yaml:"url" required:"true" doc:"URL of the requests; a template, unless a preset is set."`
	Format         string                      `yaml:"format" enum:"raw|cloudevents|watermill" default:"raw" doc:"Format of a request: a JSON array of the payloads, a batch of CloudEvents (application/cloudevents-batch+json), or with watermill one message, sent by watermill-http's Publisher: the payload with the headers Message-Uuid and Message-Metadata. An array of payloads has no event ids: a receiver that recognises duplicates by id needs cloudevents, or batch: {max_messages: 1}, which adds the header Idempotency-Key."`
	Headers        map[string]Secret           `yaml:"headers" doc:"Headers of every request. Values count as secrets."`
	Token          Secret                      `yaml:"token" doc:"Bearer token for the Authorization header."`
	TLS            TLS                         `yaml:"tls" doc:"Certificates of an https url. TLS is on for https and off for http. A token or headers are sent over http to another machine only with enabled: false."`
	AllowPrivate   bool                        `yaml:"allow_private" default:"true" doc:"Whether requests may go to this machine and to private networks. false: to public addresses only, as with webhooks, and without a proxy. Metadata services of clouds are always refused."`
	AllowNetworks  []string                    `yaml:"allow_networks" doc:"Private networks that requests may go to, such as 10.1.0.0/16."`
	DenyNetworks   []string                    `yaml:"deny_networks" doc:"Networks that are always refused."`
	ConnectTimeout Duration                    `yaml:"connect_timeout" default:"10s" min:"1ms" max:"10m" doc:"Longest time to open a connection."`
	Timeout        Duration                    `yaml:"timeout" default:"30s" min:"1ms" max:"10m" doc:"Longest time for a request, from dialling to the end of the response."`
	Batch          HTTPBatch                   `yaml:"batch" doc:"Bounds of one request."`
	MaxRequests    int                         `yaml:"max_requests" default:"64" min:"1" max:"10000" doc:"Most requests in flight per route; with a source of layout {layouts with one limit} per source. A group has at most one of them."`
	Status         map[StatusCode]StatusAction `yaml:"status" doc:"Meaning of status codes that differs from the default."`
	ShowPayload    bool                        `yaml:"show_payload" default:"false" doc:"Whether errors quote the values of payloads that a response repeats. Errors reach the log, and users with the role read. false: such a value is shown as ***."`
	Source         string                      `yaml:"source" default:"outrider" doc:"Source attribute of CloudEvents, a URI reference."`
}

// Kind is "http".
func (*HTTP) Kind() string { return "http" }

func (h *HTTP) static() bool { return h.URL.Static() && h.Preset == "" }

// HTTPBatch bounds one request.
type HTTPBatch struct {
	MaxMessages int  `yaml:"max_messages" default:"100" min:"1" max:"10000" doc:"Most messages. With format watermill always 1."`
	MaxBytes    Size `yaml:"max_bytes" default:"1MiB" min:"1KiB" max:"1GiB" doc:"Most payload. A larger message goes alone."`
	Whole       bool `yaml:"whole" default:"false" doc:"The receiver accepts or refuses a request as a whole: a refused request is a failed attempt of all its messages, and is not split to find the rejected one. A route with order: global then sends up to max_messages in a request, and at most 1000, instead of one."`
	MaxGroups   int  `yaml:"max_groups" default:"0" min:"0" max:"10000" doc:"Most groups; 0: any number."`
}

// headerName is RFC 9110's token.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func (h *HTTP) check(c *form.Checker, at form.Location) {
	h.checkPreset(c, at)
	if u := checkURL(c, at.Child("url"), h.URL); u != nil {
		httpTLS(c, at, u, &h.TLS, !h.Token.IsZero() || len(h.Headers) > 0)
		reachable(c, at.Child("url"), u, guard.Guard{Any: h.AllowPrivate, NoMetadata: true}, h.AllowNetworks, h.DenyNetworks)
	}
	networks(c, at.Child("allow_networks"), h.AllowNetworks)
	networks(c, at.Child("deny_networks"), h.DenyNetworks)
	headers := at.Child("headers")
	checkHeaderNames(c, headers, h.Headers)
	for name := range h.Headers {
		if !h.Token.IsZero() && equalFold(name, "Authorization") {
			c.Add(headers.Child(name).Key(), "the header Authorization and token exclude each other").Fix("remove one of them")
		}
	}
	if h.Format == "watermill" {
		h.checkWatermill(c, at)
	}
	uri(c, at.Child("source"), h.Source)
	cloudEventsSource(c, at, h.Format)
}

// checkWatermill makes a request one message.
func (h *HTTP) checkWatermill(c *form.Checker, at form.Location) {
	if at.Child("batch").Has("max_messages") && h.Batch.MaxMessages != 1 {
		c.Add(at.Child("batch").Child("max_messages"), "a request of format watermill is one message").Fix("remove the key")
	}
	h.Batch.MaxMessages = 1
}

// checkHeaderNames refuses keys that cannot be header names.
func checkHeaderNames(c *form.Checker, at form.Location, headers map[string]Secret) {
	for name := range headers {
		if !headerName.MatchString(name) {
			c.Add(at.Child(name).Key(), "is not a header name").Fix("use letters, digits and hyphens")
		}
	}
}

// baseURL is a URL at least up to the slash behind its host.
var baseURL = regexp.MustCompile(`^[a-zA-Z]+://[^/?]+[/?]`)

// checkURL checks the address of a sample message, and
// returns it if nothing is wrong with it.
func checkURL(c *form.Checker, at form.Location, t Template) *url.URL {
	text := t.sample()
	if text == "" {
		return nil
	}
	fixed, _, _ := strings.Cut(string(t), "{{")
	u, err := url.Parse(text)
	switch {
	case !t.Static() && !baseURL.MatchString(fixed):
		c.Add(at, "scheme and host must be the same for all messages").
			Fix("use placeholders in the path: https://api.example.com/{{.Tenant}}/events")
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		c.Add(at, "is not a URL of http or https").Fix("for example https://api.example.com/events")
	case u.User != nil:
		c.Add(at, "must not contain a user name or password").
			Fix("use headers for credentials: addresses appear in logs and metrics")
	default:
		return u
	}
	return nil
}

// StatusCode is an HTTP status that can be given a meaning: 300 to 599.
type StatusCode int

// Parse implements form.Scalar.
func (s *StatusCode) Parse(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 300 || n > 599 || len(text) != 3 {
		return form.Expected("a status code from 300 to 599: 2xx is always delivered")
	}
	*s = StatusCode(n)
	return nil
}

// Spelling implements form.Scalar.
func (*StatusCode) Spelling() form.Spelling {
	return form.Spelling{Name: "status code", Pattern: `^[3-5][0-9][0-9]$`}
}

// String returns the three digits.
func (s StatusCode) String() string { return strconv.Itoa(int(s)) }

// StatusAction is the meaning of a status for the messages of the request.
type StatusAction string

// The meanings of an answer.
const (
	StatusDelivered   StatusAction = "delivered"   // taken
	StatusSkip        StatusAction = "skip"        // counted as skipped
	StatusTransient   StatusAction = "transient"   // try again; counts as an attempt
	StatusUnavailable StatusAction = "unavailable" // the endpoint is down; no attempt is counted
	StatusGone        StatusAction = "gone"        // disable the endpoint until an operator resumes it
	StatusPermanent   StatusAction = "permanent"   // dead at once
)

// Parse implements form.Scalar.
func (s *StatusAction) Parse(text string) error {
	if known := s.Spelling().Enum; !slices.Contains(known, text) {
		return form.OneOf(known)
	}
	*s = StatusAction(text)
	return nil
}

// Spelling implements form.Scalar.
func (*StatusAction) Spelling() form.Spelling {
	return form.Spelling{Name: "action", Enum: []string{"delivered", "skip", "transient", "unavailable", "gone", "permanent"}}
}

// String returns the word as it is written.
func (s StatusAction) String() string { return string(s) }

// Presets of a destination for FlowCatalyst's API: that of the document that names two tables, and that of its current SDKs.
// The layouts of a source with these names are in package layout.
const (
	FlowCatalyst   = "flowcatalyst"
	FlowCatalystV2 = "flowcatalyst-v2"
)

// Defaults of FlowCatalyst's outbox processor that differ from Outrider's.
const (
	flowCatalystRequests = 10
	flowCatalystGroups   = 1
)

// checkPreset gives the destination the preset's bounds and refuses what
// contradicts it.
func (h *HTTP) checkPreset(c *form.Checker, at form.Location) {
	if h.Preset == "" {
		return
	}
	if !at.Has("max_requests") {
		h.MaxRequests = flowCatalystRequests
	}
	if h.Preset == FlowCatalyst && !at.Child("batch").Has("max_groups") {
		h.Batch.MaxGroups = flowCatalystGroups
	}
	if h.Format != "raw" {
		c.Add(at.Child("format"), "the preset sends payloads as they are").Fix("remove the key, or the preset")
	}
	if at.Has("url") && !h.URL.isBase() {
		c.Add(at.Child("url"), "the preset appends a path to it").
			Fix("give the base URL, for example https://api.example.com: no query, no placeholders, no /api/events/batch")
	}
}

// isBase reports whether a path can be appended to the URL. One that ends with a
// path of the API was probably meant to be the base.
func (t Template) isBase() bool {
	text := strings.TrimRight(string(t), "/")
	return t.Static() && !strings.ContainsAny(text, "?#") && !strings.HasSuffix(text, "/batch")
}
