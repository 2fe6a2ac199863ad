package format

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

func TestAddressRenders(t *testing.T) {
	t.Parallel()
	msg := adapters.NewMessage(&adapters.Row{
		ID: "01", Type: "Order.Created", Group: "order-1", Tenant: "acme",
		Tags: map[string]string{"order_id": "7"}, Headers: map[string]string{"x-region": "eu"},
	}, "orders/07")
	for text, want := range map[string]string{
		"events":                                "events",
		"{{.Type}}":                             "Order.Created",
		"app.{{.Tenant}}.{{.Type}}":             "app.acme.Order.Created",
		"{{.Route}}-x":                          "orders-x",
		"{{lower .Type}}":                       "order.created",
		`{{.Type | replace "." "_" | upper}}`:   "ORDER_CREATED",
		"{{.Tags.order_id}}":                    "7",
		`{{index .Headers "x-region"}}`:         "eu",
		"{{if .Tenant}}t{{.Tenant}}{{end}}.x":   "tacme.x",
		"{{with .Group}}g{{.}}{{else}}n{{end}}": "gorder-1",
	} {
		a, err := NewAddress(text, nil)
		if err != nil {
			t.Errorf("NewAddress(%q): %v", text, err)
			continue
		}
		if got, err := a.Render(msg); got != want || err != nil {
			t.Errorf("%q renders %q, %v; want %q", text, got, err, want)
		}
		if a.Static() != !strings.Contains(text, "{{") {
			t.Errorf("%q: Static() = %v", text, a.Static())
		}
	}
}

func TestAddressRefusesTemplates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{{.Typ}}":       "Typ",
		"{{lower .Typ}}": "Typ",
		"{{.Type":        "unclosed action",
		"{{nope .Type}}": `"nope" not defined`,
	} {
		if _, err := NewAddress(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewAddress(%q) = %v, want an error with %q", text, err, want)
		}
	}
}

func TestAddressRefusesMessages(t *testing.T) {
	t.Parallel()
	msg := adapters.NewMessage(&adapters.Row{ID: "01", Type: "order.created"}, "orders/07")
	for text, missing := range map[string]string{"x-{{.Tenant}}": "{{.Tenant}}", "{{lower .Tenant}}.{{.Type}}": "{{lower .Tenant}}", "{{.Tags.missing}}": "missing"} {
		a, err := NewAddress(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.Render(msg)
		if _, named, _ := strings.Cut(fmt.Sprint(err), "message 01: "); outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(named, missing) || strings.Contains(named, valueFilter) {
			t.Errorf("%q renders %q, %v; want a permanent error that names %s", text, got, err, missing)
		}
	}
}

func TestAddressEncodesValuesOnly(t *testing.T) {
	t.Parallel()
	bad := errors.New("refused")
	encode := func(s string) (string, error) {
		if s == "bad" {
			return "", bad
		}
		return "<" + s + ">", nil
	}
	msg := adapters.NewMessage(&adapters.Row{ID: "01", Type: "t", Group: "bad"}, "r/00")
	for text, want := range map[string]string{
		"a/{{.Type}}/b":                           "a/<t>/b",
		"a/{{upper .Type}}/b":                     "a/<T>/b",
		"{{range $k, $v := .Tags}}{{end}}{{.ID}}": "<01>",
	} {
		a, err := NewAddress(text, encode)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.Render(msg); got != want || err != nil {
			t.Errorf("%q renders %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"{{.Group}}", "{{lower .Group}}"} {
		a, err := NewAddress(text, encode)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Render(msg); !errors.Is(err, bad) || !strings.Contains(err.Error(), "01") {
			t.Errorf("%q: error %v, want the encoder's, with the message named", text, err)
		}
	}
}
