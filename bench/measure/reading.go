package measure

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
)

// Batches reads requests with a JSON array of payloads of one group.
type Batches struct{}

func (Batches) count(body []byte) int { return countPayloads(body) }

func (Batches) check(c *Checker, r *request) error {
	var items []json.RawMessage
	if err := json.Unmarshal(r.body, &items); err != nil {
		return fmt.Errorf("no JSON array: %w", err)
	}
	first := -1
	for i, it := range items {
		row, group := c.came(it)
		c.note(row, r.at)
		if i == 0 {
			first = group
		}
		if group != first {
			c.tally.Mixed++
			return nil // the rest counts as lost; the run fails anyway
		}
	}
	return nil
}

// Webhooks reads signed requests with one payload each.
type Webhooks struct{}

// webhookKey signs the webhooks of the benchmark only.
var webhookKey = []byte("outrider's benchmark: no secret!")

// WebhookSecret is webhookKey in the form of a configuration.
var WebhookSecret = "whsec_" + base64.StdEncoding.EncodeToString(webhookKey)

// The headers of Standard Webhooks.
const (
	webhookID        = "webhook-id"
	webhookTimestamp = "webhook-timestamp"
	webhookSignature = "webhook-signature"
)

func (Webhooks) count([]byte) int { return 1 }

func (Webhooks) check(c *Checker, r *request) error { //nolint:unparam // other readings return errors
	id, timestamp := r.header.Get(webhookID), r.header.Get(webhookTimestamp)
	want := NewWebhookSigner().Sign(id, timestamp, r.body)
	if id == "" || r.header.Get(webhookSignature) != want {
		c.tally.Unsigned++
	}
	row, _ := c.came(r.body)
	c.note(row, r.at)
	return nil
}

// WebhookSigner makes signatures, one after the other.
type WebhookSigner struct {
	mac  hash.Hash
	text bytes.Buffer
}

// NewWebhookSigner returns a signer with the key of [WebhookSecret].
func NewWebhookSigner() *WebhookSigner { return &WebhookSigner{mac: hmac.New(sha256.New, webhookKey)} }

// Sign returns the value of the header webhook-signature.
func (s *WebhookSigner) Sign(id, timestamp string, body []byte) string {
	s.text.Reset()
	s.text.WriteString(id + "." + timestamp + ".")
	s.mac.Reset()
	_, _ = s.mac.Write(s.text.Bytes()) // a hash never fails
	_, _ = s.mac.Write(body)
	sum := s.mac.Sum(s.text.AvailableBuffer())
	return "v1," + base64.StdEncoding.EncodeToString(sum)
}
