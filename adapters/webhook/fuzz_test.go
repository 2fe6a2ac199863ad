package webhook

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// FuzzSignature signs anything: what is signed verifies by the reference library, and
// a secret that cannot sign is an error.
func FuzzSignature(f *testing.F) {
	f.Add(secret, "evt_1", []byte(`{}`))
	f.Add("whsec_", "", []byte(nil))
	f.Add("whsk_AAAA", "a.b", []byte{0xff})
	f.Add("whpk_x", "x", []byte("."))
	f.Fuzz(func(t *testing.T, key, id string, body []byte) {
		if k, err := newKey(key); (k == nil) == (err == nil) {
			t.Fatalf("secret %q: %v, %v", key, k, err)
		}
		if checkID(id) != nil {
			return
		}
		s, err := newSigner([]string{secret})
		if err != nil {
			t.Fatal(err)
		}
		timestamp := strconv.FormatInt(time.Now().Unix(), 10)
		verify, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		h.Set(headerID, id)
		h.Set(headerTimestamp, timestamp)
		h.Set(headerSignature, s.signature(id, timestamp, body))
		if err := verify.Verify(body, h); err != nil {
			t.Errorf("id %q: %v", id, err)
		}
	})
}
