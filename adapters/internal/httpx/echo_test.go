package httpx

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// What a receiver repeats of a payload is not quoted, however it writes it; names and the receiver's own words are.
func TestG12_EchoedPayloadsAreMasked(t *testing.T) {
	t.Parallel()
	payload := []byte(`{"email": "bob@example.com", "card": 4111111111111111, "pin": "1234", "note": "über <b>\"quick\"</b> /x", "ok": true, "list": [{"iban": "DE89 3704 0044 0532 0130 00"}]}`)
	indented, err := json.MarshalIndent(json.RawMessage(payload), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(map[string]string{"error": "cannot read " + string(payload)})
	if err != nil {
		t.Fatal(err)
	}
	o := Outcome{Name: "http", Quote: 4096, Statuses: NewStatuses(DefaultStatuses(), nil, nil), Secrets: NewRedactor([]string{`t0k/en"+ü`})}
	for name, answer := range map[string]string{
		"as it was": string(payload), "indented": string(indented), "in JSON": string(quoted),
		"in HTML": html.EscapeString(string(payload)), "in a form": url.QueryEscape(string(payload)),
		"one value": "the address bob@example.com is not valid", "a part": "no such IBAN: 3704 0044 0532", "a short one": "pin=1234 is wrong",
	} {
		got := o.Refused(&http.Response{StatusCode: http.StatusUnprocessableEntity}, "https://a.example/", []byte(answer), []byte(`"another"`), payload).Error()
		for _, value := range []string{"example.com", "41111111", "1234", "quick", "3704 0044"} {
			if strings.Contains(got, value) {
				t.Errorf("%s: the error repeats %q: %s", name, value, got)
			}
		}
	}
	got := o.Refused(&http.Response{StatusCode: http.StatusUnprocessableEntity}, "https://a.example/", []byte(`{"error": "email bob@example.com of order 12345 is unknown"}`), payload).Error()
	if !strings.Contains(got, `{"error": "email *** of order 12345 is unknown"}`) {
		t.Errorf("more than the value is masked: %s", got)
	}
	o.ShowPayload = true
	if got := o.Refused(&http.Response{StatusCode: http.StatusUnprocessableEntity}, "https://a.example/", payload, payload).Error(); !strings.Contains(got, "bob@example.com") {
		t.Errorf("with ShowPayload: %s", got)
	}
	if got := string(MaskEcho([]byte("cannot parse: \x00\x01binary-and-secret\x02"), []byte("\x00\x01binary-and-secret\x02"))); got != "cannot parse: ***" {
		t.Errorf("a payload that is no JSON: %q", got)
	}
}

// A secret is redacted in every form in which an answer may write it.
func TestG12_SecretsAreRedactedHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	const secret = `t0k/en"+<ü>&`
	r := NewRedactor([]string{secret})
	inJSON, _ := json.Marshal(secret)
	for _, form := range []string{
		secret, string(inJSON), strings.ReplaceAll(string(inJSON), "/", `\/`), fmt.Sprintf("%+q", secret), url.QueryEscape(secret), strings.ToLower(url.QueryEscape(secret)),
		url.PathEscape(secret), html.EscapeString(secret),
	} {
		if got := r.Quote([]byte("token "+form+" is wrong"), 1000); strings.Contains(got, "t0k") {
			t.Errorf("%s is shown as %s", form, got)
		}
	}
}
