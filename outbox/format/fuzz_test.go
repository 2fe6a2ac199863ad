package format

import (
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// FuzzAddress parses any template and renders a message with any tags: it must not
// panic, and what is empty or cannot be rendered is a permanent error.
func FuzzAddress(f *testing.F) {
	f.Add("{{.Type}}", "t", `{"a": "b"}`)
	f.Add(`{{replace "." "-" .Type}}-{{.Tags.region}}`, "a.b", `{"region": "eu"}`)
	f.Add(`{{if .Tenant}}{{.Tenant}}{{else}}x{{end}}`, "", `[]`)
	f.Add(`{{index .Headers "x"}}{{with .Tags.a}}{{.}}{{end}}`, "\x00", `{"a"`)
	f.Fuzz(func(t *testing.T, text, typ, tags string) {
		if strings.Contains(text, "range") || strings.Contains(text, "define") || strings.Contains(text, "template") || strings.Contains(text, "printf") {
			return // the configuration refuses what could run for long
		}
		a, err := NewAddress(text, nil)
		if err != nil {
			return
		}
		msg := adapters.NewMessage(&adapters.Row{ID: "id", Type: typ, Payload: []byte("{}")}, "route/00")
		msg.Metadata[outbox.MetaTags] = tags
		if _, err := a.Render(msg); err != nil && outbox.KindOf(err) != outbox.KindPermanent {
			t.Errorf("%q: %v", text, err)
		}
	})
}
