package config

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/outriderhq/outrider/config/internal/form"
	"github.com/outriderhq/outrider/internal/guard"
)

// Webhook sends each message as one signed request (Standard Webhooks).
type Webhook struct {
	URL            Template                    `yaml:"url" required:"true" doc:"URL of the requests; a template. Each rendered URL is an endpoint."`
	Secrets        []Secret                    `yaml:"secrets" min:"1" doc:"Secrets, each of which signs every request: whsec_... (HMAC-SHA256) or whsk_... (Ed25519). For a rotation put the new one before the old one. Required, here or as secrets_file."`
	SecretsFile    []Secret                    `yaml:"secrets_file" file:"lines" doc:"File with the secrets, one per line; blank lines and lines that begin with # are ignored."`
	Format         string                      `yaml:"format" enum:"raw|cloudevents|cloudevents-binary" default:"raw" doc:"Body of a request: the payload, a structured CloudEvent (application/cloudevents+json), or the payload with the CloudEvent's attributes in ce- headers."`
	Headers        map[string]Secret           `yaml:"headers" doc:"Headers of every request. Values count as secrets."`
	PassHeaders    []string                    `yaml:"pass_headers" doc:"With format cloudevents-binary: headers of messages that are passed on, at most 8 KiB of them; * at the end matches any suffix. Headers that begin with Outrider- are never passed on. Default: traceparent, tracestate, ce-*."`
	CAFile         File                        `yaml:"ca_file" doc:"The same as ca_file in tls."`
	TLS            TLS                         `yaml:"tls" doc:"Certificates of an https url. TLS is on for https and off for http. Headers are sent over http to another machine only with enabled: false."`
	ConnectTimeout Duration                    `yaml:"connect_timeout" default:"10s" min:"1ms" max:"10m" doc:"Longest time to open a connection."`
	Timeout        Duration                    `yaml:"timeout" default:"30s" min:"1ms" max:"10m" doc:"Longest time for a request, from dialling to the end of the response."`
	MaxRequests    int                         `yaml:"max_requests" default:"64" min:"1" max:"10000" doc:"Most requests in flight per route. A group has at most one of them."`
	Rate           Rate                        `yaml:"rate" doc:"Most requests to one endpoint per second, minute or hour. Default: no limit."`
	Burst          int                         `yaml:"burst" min:"1" max:"1000000" doc:"Requests to one endpoint allowed at once after a quiet time. Default: those of one second, at least 1."`
	AllowPrivate   bool                        `yaml:"allow_private" default:"false" doc:"Whether requests may go to any address: this machine, private networks, metadata services. For tests, or if everyone who controls a URL or its DNS entry is trusted."`
	AllowNetworks  []string                    `yaml:"allow_networks" doc:"Private networks that requests may go to, such as 10.1.0.0/16."`
	DenyNetworks   []string                    `yaml:"deny_networks" doc:"Networks that are always refused, for example your own public addresses."`
	Capture        Size                        `yaml:"capture" default:"4KiB" min:"0B" max:"64KiB" doc:"How much of an error response the error quotes."`
	Status         map[StatusCode]StatusAction `yaml:"status" doc:"Meaning of status codes that differs from the default."`
	ShowPayload    bool                        `yaml:"show_payload" default:"false" doc:"Whether errors quote the values of payloads that a response repeats. Errors reach the log, and users with the role read. false: such a value is shown as ***."`
	Source         string                      `yaml:"source" default:"outrider" doc:"Source attribute of CloudEvents, a URI reference."`
}

// Kind is "webhook".
func (*Webhook) Kind() string { return "webhook" }

func (w *Webhook) static() bool { return w.URL.Static() }

// AllSecrets returns the secrets, wherever they were given.
func (w *Webhook) AllSecrets() []Secret {
	if len(w.Secrets) > 0 {
		return w.Secrets
	}
	return w.SecretsFile
}

func (w *Webhook) check(c *form.Checker, at form.Location) {
	w.checkURL(c, at, at.Child("url"))
	w.checkSecrets(c, at)
	checkHeaderNames(c, at.Child("headers"), w.Headers)
	w.checkPassHeaders(c, at)
	networks(c, at.Child("allow_networks"), w.AllowNetworks)
	networks(c, at.Child("deny_networks"), w.DenyNetworks)
	if w.CAFile != "" && w.TLS.given() {
		c.Add(at.Child("ca_file").Key(), "ca_file and tls exclude each other").Fix("write tls: {ca_file: ...}")
	}
	if at.Has("burst") && !at.Has("rate") {
		c.Add(at.Child("burst"), "has no effect without rate").Fix("add rate: 50/s, or remove it")
	}
	uri(c, at.Child("source"), w.Source)
	if w.Format != "cloudevents-binary" {
		cloudEventsSource(c, at, w.Format)
	}
}

// checkURL also refuses addresses that the guard would never dial. Names are checked when
// they are resolved.
func (w *Webhook) checkURL(c *form.Checker, parent, at form.Location) {
	u := checkURL(c, at, w.URL)
	if u == nil {
		return
	}
	if httpTLS(c, parent, u, &w.TLS, len(w.Headers) > 0); u.Scheme == "http" && !loopback(u.Hostname()) && len(w.Headers) == 0 {
		c.Warn(at, "sends messages in the clear").Fix("use https")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	local := strings.TrimSuffix(u.Hostname(), ".") == "localhost" || err == nil && (addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast() || addr.IsUnspecified())
	if local && !w.AllowPrivate && len(w.AllowNetworks) == 0 {
		c.Add(at, "is not a public address, and webhooks go to public ones only").
			Fix("add its network to allow_networks, or set allow_private: true")
		return
	}
	reachable(c, at, u, guard.Guard{Any: w.AllowPrivate}, w.AllowNetworks, w.DenyNetworks)
}

// checkPassHeaders refuses what passes nothing on.
func (w *Webhook) checkPassHeaders(c *form.Checker, at form.Location) {
	list := at.Child("pass_headers")
	if at.Has("pass_headers") && at.Sound("format") && w.Format != "cloudevents-binary" {
		c.Add(list.Key(), "has no effect with format %s", w.Format).Fix("remove it, or set format: cloudevents-binary")
	}
	for i, name := range w.PassHeaders {
		if trimmed := strings.TrimSuffix(name, "*"); trimmed != "" && !headerName.MatchString(trimmed) || name == "" {
			c.Add(list.Item(i), "is not a header name").Fix("use letters, digits and hyphens, with * at the end for all that begin so")
		}
	}
}

func (w *Webhook) checkSecrets(c *form.Checker, at form.Location) {
	switch {
	case at.Has("secrets") && at.Has("secrets_file"):
		c.Add(at.Child("secrets_file").Key(), "secrets and secrets_file exclude each other").Fix("remove one of them")
	case !at.Has("secrets") && !at.Has("secrets_file") && !at.Partial():
		c.Add(at.Missing(), "the key secrets is missing").
			Fix("add secrets: [${WEBHOOK_SECRET}]; make one with: echo whsec_$(openssl rand -base64 32)")
	}
	for i, s := range w.Secrets {
		if problem := signingProblem(s.Reveal()); problem != "" && !s.IsZero() {
			c.Add(at.Child("secrets").Item(i), "%s", problem).Fix("make one with: echo whsec_$(openssl rand -base64 32)")
		}
	}
	for i, s := range w.SecretsFile {
		if problem := signingProblem(s.Reveal()); problem != "" {
			c.Add(at.Child("secrets_file"), "the secret number %d in the file %s", i+1, problem).
				Fix("make one with: echo whsec_$(openssl rand -base64 32)")
		}
	}
}

// signingProblem is the problem of a secret, by the rules of package adapters/webhook;
// nothing of the secret is in it.
func signingProblem(text string) string {
	const minSecret, maxSecret = 24, 64
	prefix, encoded, _ := strings.Cut(text, "_")
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	switch prefix {
	case "whsec":
		if err != nil || len(raw) < minSecret || len(raw) > maxSecret {
			return fmt.Sprintf("is not whsec_ and %d to %d bytes in base64", minSecret, maxSecret)
		}
	case "whsk":
		if err != nil || len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
			return "is not whsk_ and an Ed25519 key of 32 or 64 bytes in base64"
		}
	case "whpk":
		return "is a public key, which is for receivers"
	default:
		return "begins neither with whsec_ nor with whsk_"
	}
	return ""
}

// webhookRetry is the retry of a route to webhooks: a receiver may be down over a
// weekend. Its pauses grow from 5 s to 12 h and add up to three days and a half,
// about as long as the schedule that Standard Webhooks recommends.
var webhookRetry = Retry{Attempts: 20, Base: Duration(5 * time.Second), Max: Duration(12 * time.Hour), Jitter: 0.5, Growth: exponential}

// retryAsWebhook gives a route whose destinations are all webhooks the retry that
// suits them, unless the file has keys of its retry.
func (cfg *Config) retryAsWebhook(at form.Location, r *Route) {
	for _, to := range r.Targets {
		if d, ok := cfg.Destinations[to].(*Webhook); !ok || d == nil {
			return
		}
	}
	for _, m := range r.Middleware {
		if retry, ok := m.(*Retry); ok && retry != nil && bare(at, "retry") {
			*retry = webhookRetry
		}
	}
}
