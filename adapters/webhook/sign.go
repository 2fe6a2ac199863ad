package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"

	"github.com/outriderhq/outrider/outbox"
)

// Prefixes that say which kind of secret it is.
const (
	prefixSymmetric = "whsec_"
	prefixPrivate   = "whsk_"
	prefixPublic    = "whpk_"
)

// Least and most bytes of a symmetric secret.
const (
	minSecret = 24
	maxSecret = 64
)

// signer makes the value of the signature header.
type signer []key

// key makes one signature of the signed text, which comes in two parts.
type key interface {
	sign(dst, head, body []byte) []byte
}

// newSigner reads secrets. Its errors quote nothing of them.
func newSigner(secrets []string) (signer, error) {
	if len(secrets) == 0 {
		return nil, errors.New("secrets: none given: make one with: echo whsec_$(openssl rand -base64 32)")
	}
	var s signer
	var errs []error
	for i, text := range secrets {
		k, err := newKey(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("secrets: number %d %w", i+1, err))
			continue
		}
		s = append(s, k)
	}
	return s, errors.Join(errs...)
}

func newKey(text string) (key, error) {
	var decode = base64.StdEncoding.Strict().DecodeString
	if encoded, ok := strings.CutPrefix(text, prefixSymmetric); ok {
		raw, err := decode(encoded)
		if err != nil || len(raw) < minSecret || len(raw) > maxSecret {
			return nil, fmt.Errorf("is not whsec_ and %d to %d bytes in base64", minSecret, maxSecret)
		}
		return newSymmetric(raw), nil
	}
	if encoded, ok := strings.CutPrefix(text, prefixPrivate); ok {
		raw, err := decode(encoded)
		if err != nil || len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
			return nil, errors.New("is not whsk_ and an Ed25519 key of 32 or 64 bytes in base64")
		}
		private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if len(raw) == ed25519.PrivateKeySize && !private.Equal(ed25519.PrivateKey(raw)) {
			return nil, errors.New("is an Ed25519 key whose public half does not belong to its private half")
		}
		return asymmetric(private), nil
	}
	if strings.HasPrefix(text, prefixPublic) {
		return nil, errors.New("is a public key, which is for receivers: give the private one, which begins with whsk_")
	}
	return nil, errors.New("begins neither with whsec_ nor with whsk_")
}

// signature returns the value of the signature header: one signature for each
// secret, with spaces between them.
func (s signer) signature(id, timestamp string, body []byte) string {
	head := make([]byte, 0, 128)
	head = append(head, id...)
	head = append(head, '.')
	head = append(head, timestamp...)
	head = append(head, '.')
	dst := make([]byte, 0, 128)
	for i, k := range s {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = k.sign(dst, head, body)
	}
	return string(dst)
}

// symmetric is scheme v1. Its states are used again: preparing one for the key
// costs as much as signing a small message.
type symmetric struct{ states sync.Pool }

// state is an HMAC and room for its result.
type state struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

func newSymmetric(secret []byte) *symmetric {
	k := &symmetric{}
	k.states.New = func() any { return &state{mac: hmac.New(sha256.New, secret)} }
	return k
}

func (k *symmetric) sign(dst, head, body []byte) []byte {
	s, _ := k.states.Get().(*state) // what New makes
	defer k.states.Put(s)
	s.mac.Reset()
	_, _ = s.mac.Write(head) // a hash never fails
	_, _ = s.mac.Write(body)
	dst = append(dst, "v1,"...)
	return base64.StdEncoding.AppendEncode(dst, s.mac.Sum(s.sum[:0]))
}

// asymmetric is scheme v1a.
type asymmetric ed25519.PrivateKey

func (k asymmetric) sign(dst, head, body []byte) []byte {
	text := make([]byte, 0, len(head)+len(body))
	text = append(append(text, head...), body...)
	dst = append(dst, "v1a,"...)
	return base64.StdEncoding.AppendEncode(dst, ed25519.Sign(ed25519.PrivateKey(k), text))
}

// checkID refuses ids that cannot be signed: the id, the time and the body are
// joined by dots, so with a dot in an id one signature would fit two requests.
func checkID(id string) error {
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c >= 0x7f || c == '.' {
			return outbox.Permanent(fmt.Errorf("webhook: message %s has an id that cannot be signed: "+
				"Standard Webhooks allow no dots, spaces and non-ASCII characters in it", strconv.QuoteToASCII(id)))
		}
	}
	if id == "" {
		return outbox.Permanent(errors.New("webhook: a message has no id, which the signature needs"))
	}
	return nil
}
