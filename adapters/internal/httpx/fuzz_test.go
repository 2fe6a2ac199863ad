package httpx

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// FuzzTarget renders a URL with any value: it is refused, or the request goes to a
// URL of the same host and depth, however it is cleaned or decoded on its way.
func FuzzTarget(f *testing.F) {
	for _, value := range []string{"acme", "..", "../x", `..\x`, "%2e%2e%2f", "a;b", "a?b#c", "\x00", "é", "\r\nHost: x", "%252e", ".", "a@b:c"} {
		f.Add(value)
	}
	target, err := NewTarget("https://api.example.com/tenants/{{.Tenant}}/events?t={{.Tenant}}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value string) {
		msg := message.NewMessage("id", nil)
		msg.Metadata[outbox.MetaTenant] = value
		address, err := target.Address(msg)
		if err != nil {
			if outbox.KindOf(err) != outbox.KindPermanent {
				t.Errorf("%q: %v", value, err)
			}
			return
		}
		u, err := url.Parse(address)
		if err != nil || u.Host != "api.example.com" || u.Fragment != "" || u.Query().Get("t") != value {
			t.Fatalf("%q leads to %s (%v)", value, address, err)
		}
		for p, i := u.EscapedPath(), 0; i < 3; i++ {
			if clean := path.Clean(p); clean != p || strings.Count(p, "/") != 3 || !strings.HasSuffix(p, "/events") || strings.Contains(p, `\`) {
				t.Fatalf("%q leads to %s, that is %s", value, p, clean)
			}
			if p, err = url.PathUnescape(p); err != nil {
				return
			}
		}
	})
}
