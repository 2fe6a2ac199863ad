package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// The vectors of Standard Webhooks: its reference libraries test with the
// symmetric one, and the asymmetric signature is the example in its text.
const (
	vectorID   = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTime = "1614265330"
	vectorBody = `{"test": 2432232314}`
	vectorV1   = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	vectorV1a  = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="

	private = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	public  = "1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
)

// seed is the private half of private alone.
var seed = func() string {
	raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(private, prefixPrivate))
	return prefixPrivate + base64.StdEncoding.EncodeToString(raw[:ed25519.SeedSize])
}()

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func newTestSigner(t *testing.T, secrets ...string) signer {
	t.Helper()
	s, err := newSigner(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignatureVectors(t *testing.T) {
	t.Parallel()
	for want, secrets := range map[string][]string{
		vectorV1:                   {secret},
		vectorV1a:                  {private},
		vectorV1a + " " + vectorV1: {seed, secret},
		strings.Join([]string{vectorV1, vectorV1a, vectorV1}, " "): {secret, private, secret},
	} {
		s := newTestSigner(t, secrets...)
		for range 2 { // the second time with used states
			if got := s.signature(vectorID, vectorTime, []byte(vectorBody)); got != want {
				t.Errorf("%d secrets sign\n%s, want\n%s", len(secrets), got, want)
			}
		}
	}
}

// Whatever the message, what we send is what the reference library would have
// sent, and what a holder of the public key can verify.
func TestSignaturesAgreeWithTheReference(t *testing.T) {
	t.Parallel()
	reference, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(public)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestSigner(t, secret, private)
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[!-\-/-~]{1,40}`).Draw(t, "id")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		at := time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "time"), 0)
		timestamp := decimal(at.Unix())
		v1, v1a, _ := strings.Cut(s.signature(id, timestamp, body), " ")
		if want, _ := reference.Sign(id, at, body); v1 != want {
			t.Errorf("v1 is %s, the reference signs %s", v1, want)
		}
		signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(v1a, "v1a,"))
		if err != nil || !ed25519.Verify(key, []byte(id+"."+timestamp+"."+string(body)), signature) {
			t.Errorf("v1a %s does not verify: %v", v1a, err)
		}
	})
}

// A receiver that knows one of the secrets verifies, whichever it is: so
// neither side has to change first.
func TestRotation(t *testing.T) {
	t.Parallel()
	const next, foreign = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_plJ3nmyCDGBKInavdOK15jsl9AAAAAAA"
	var headers []http.Header
	d := answering(t, Config{Secrets: []string{next, secret, private}}, func(_ http.ResponseWriter, r *http.Request) {
		headers = append(headers, r.Header.Clone())
	})
	msg := newMessage("evt_1", "g")
	if err := one(t, d, msg); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]bool{next: true, secret: true, foreign: false} {
		w, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Verify(msg.Payload, headers[0]); (err == nil) != want {
			t.Errorf("a receiver with the secret %.10s... verifies: %v, want %v", s, err, want)
		}
	}
	signatures := strings.Fields(headers[0].Get("webhook-signature"))
	if len(signatures) != 3 || !strings.HasPrefix(signatures[2], "v1a,") {
		t.Errorf("signatures %q, want one for each secret in their order", signatures)
	}
}

// Every attempt has a time and signatures of its own; the id stays.
func TestEveryAttemptIsSignedAnew(t *testing.T) {
	t.Parallel()
	r := newReceiver(t) // verifies each, which the time is part of
	r.setAnswer(func(_ http.ResponseWriter, _ *http.Request, _ adaptertest.Received) int {
		if len(r.seen()) == 1 {
			return http.StatusInternalServerError
		}
		return 0
	})
	d := destination(t, Config{URL: r.URL})
	msg := newMessage("evt_1", "g")
	if err := one(t, d, msg); outbox.KindOf(err) != outbox.KindTransient {
		t.Fatalf("first attempt: %v", err)
	}
	d.now = func() time.Time { return time.Now().Add(10 * time.Second) }
	if err := one(t, d, msg); err != nil {
		t.Fatal(err)
	}
	seen := r.seen()
	a, b := seen[0].header, seen[1].header
	if a.Get(headerID) != "evt_1" || b.Get(headerID) != "evt_1" {
		t.Errorf("ids %q and %q", a.Get(headerID), b.Get(headerID))
	}
	if a.Get(headerTimestamp) == b.Get(headerTimestamp) || a.Get(headerSignature) == b.Get(headerSignature) {
		t.Errorf("the second attempt was not signed anew: %v, %v", a, b)
	}
}

func TestTheSignatureIsOverWhatIsSent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := destination(t, Config{URL: r.URL, Format: format.CloudEvents})
	if err := one(t, d, newMessage("evt_1", "g")); err != nil {
		t.Fatal(err)
	}
	var event map[string]any
	if err := json.Unmarshal([]byte(r.seen()[0].body), &event); err != nil || event["id"] != "evt_1" {
		t.Errorf("event %v, %v", event, err)
	}
}

func TestIDsThatCannotBeSigned(t *testing.T) {
	t.Parallel()
	d := answering(t, Config{}, func(http.ResponseWriter, *http.Request) { t.Error("a request came") })
	for _, id := range []string{"", "order.1", "a b", "line\nbreak", "é", "del\x7f"} {
		if err := one(t, d, newMessage(id, "g")); outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(err.Error(), "id") {
			t.Errorf("id %q: %v, want a permanent error that names the id", id, err)
		}
	}
}

func TestSecretsThatAreNone(t *testing.T) {
	t.Parallel()
	encode := func(n int) string { return base64.StdEncoding.EncodeToString(slices.Repeat([]byte{7}, n)) }
	torn := []byte(private)
	torn[len(torn)-20] ^= 1
	for want, s := range map[string]string{
		"24 to 64 bytes":            prefixSymmetric + encode(23),
		"number 1 is not whsec_":    prefixSymmetric + encode(65),
		"in base64":                 prefixSymmetric + strings.TrimRight(encode(32), "="),
		"whsec_":                    prefixSymmetric,
		"Ed25519 key of 32":         prefixPrivate + encode(33),
		"does not belong":           string(torn),
		"is a public key":           "whpk_" + public,
		"begins neither":            encode(32),
		"begins neither with whsec": "",
	} {
		_, err := newSigner([]string{s})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.12q: %v, want %q", s, err, want)
		}
		if _, body, _ := strings.Cut(s, "_"); body != "" && err != nil && strings.Contains(err.Error(), body) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	if _, err := newSigner(nil); err == nil || !strings.Contains(err.Error(), "openssl") {
		t.Errorf("no secrets: %v, want the way to make one", err)
	}
	for _, n := range []int{24, 64} {
		newTestSigner(t, prefixSymmetric+encode(n))
	}
}
