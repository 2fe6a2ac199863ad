package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
)

// batches is the reading of requests with a JSON array of the payloads of one
// group.
type batches struct{}

func (batches) count(body []byte) int { return countPayloads(body) }

func (batches) check(c *checker, r *request) error {
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
			return nil // the rest is lost, which does not matter any more
		}
	}
	return nil
}

// webhooks is the reading of signed requests with one payload each.
type webhooks struct{}

// webhookKey signs the webhooks, and nothing else anywhere.
var webhookKey = []byte("outrider's benchmark: no secret!")

// webhookSecret is the same as a configuration writes it.
var webhookSecret = "whsec_" + base64.StdEncoding.EncodeToString(webhookKey)

// The headers of Standard Webhooks.
const (
	webhookID        = "webhook-id"
	webhookTimestamp = "webhook-timestamp"
	webhookSignature = "webhook-signature"
)

func (webhooks) count([]byte) int { return 1 }

func (webhooks) check(c *checker, r *request) error {
	id, timestamp := r.header.Get(webhookID), r.header.Get(webhookTimestamp)
	want := newWebhookSigner().sign(id, timestamp, r.body)
	if id == "" || r.header.Get(webhookSignature) != want {
		c.tally.Unsigned++
	}
	row, _ := c.came(r.body)
	c.note(row, r.at)
	return nil
}

// webhookSigner makes signatures, one after the other.
type webhookSigner struct {
	mac  hash.Hash
	text bytes.Buffer
}

func newWebhookSigner() *webhookSigner { return &webhookSigner{mac: hmac.New(sha256.New, webhookKey)} }

// sign returns the value of the header.
func (s *webhookSigner) sign(id, timestamp string, body []byte) string {
	s.text.Reset()
	s.text.WriteString(id + "." + timestamp + ".")
	s.mac.Reset()
	_, _ = s.mac.Write(s.text.Bytes()) // a hash never fails
	_, _ = s.mac.Write(body)
	sum := s.mac.Sum(s.text.AvailableBuffer())
	return "v1," + base64.StdEncoding.EncodeToString(sum)
}
