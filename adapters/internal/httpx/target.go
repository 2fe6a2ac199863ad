package httpx

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox/format"
)

// Target is the URL of a destination, taken apart so that what may be secret in
// it never becomes part of an address: addresses are shown to operators.
type Target struct {
	path  *format.Address // scheme, host and path
	query *format.Address // parameters that hold placeholders; nil: none
	base  *url.URL        // scheme and host alone

	User        *url.Userinfo // sent as basic authentication; nil: none
	staticQuery string        // parameters without placeholders: sent, never shown
}

// NewTarget parses a URL. Its errors do not quote it.
func NewTarget(text string) (*Target, error) {
	if text == "" {
		return nil, errors.New("url: none given")
	}
	base, query := cutQuery(text)
	t := &Target{}
	scheme, rest, ok := strings.Cut(base, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, errors.New("url: must begin with http:// or https://")
	}
	host, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if strings.Contains(host, "{{") {
		return nil, errors.New("url: the host must not depend on the message: use placeholders in the path and the query only")
	}
	u, err := url.Parse(scheme + "://" + host)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("url: has no valid host")
	}
	if strings.Contains(base, "#") {
		return nil, errors.New("url: must not have a fragment (#): it is never sent")
	}
	t.User = u.User
	u.User = nil
	t.base = u
	if t.path, err = format.NewAddress(u.String()+path, escapePath); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return t, t.addQuery(query)
}

// cutQuery cuts a template at the first question mark outside of placeholders.
func cutQuery(text string) (base, query string) {
	depth := 0
	for i := range len(text) {
		switch {
		case strings.HasPrefix(text[i:], "{{"):
			depth++
		case strings.HasPrefix(text[i:], "}}"):
			depth--
		case text[i] == '?' && depth <= 0:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

func (t *Target) addQuery(query string) error {
	var static, rendered []string
	for p := range strings.SplitSeq(query, "&") {
		switch {
		case p == "":
		case strings.Contains(p, "{{"):
			rendered = append(rendered, p)
		default:
			static = append(static, p)
		}
	}
	t.staticQuery = strings.Join(static, "&")
	if rendered == nil {
		return nil
	}
	var err error
	t.query, err = format.NewAddress(strings.Join(rendered, "&"), escapeQuery)
	if err != nil {
		return errors.New("url: a placeholder in the query is not a valid template")
	}
	return nil
}

// escapePath makes a value part of a segment of the path. A value that could make it more
// than that is refused, though it would be escaped: servers and proxies decode %2F
// before they look where a request is to go, and some of them twice.
func escapePath(s string) (string, error) {
	for plain, i := s, 0; i < 3; i++ {
		for part := range strings.FieldsFuncSeq(plain, func(r rune) bool { return r == ';' }) {
			if part == "." || part == ".." {
				return "", fmt.Errorf("the value %q would change the path", shorten.To(s, shownValue))
			}
		}
		if strings.ContainsAny(plain, `/\`) {
			return "", fmt.Errorf(`the value %q has a slash or a backslash, which would change the path; replace it: {{replace "/" "-" .Type}}`,
				shorten.To(s, shownValue))
		}
		if err := noControls(plain); err != nil {
			return "", err
		}
		decoded, err := url.PathUnescape(plain)
		if err != nil || decoded == plain {
			break
		}
		plain = decoded
	}
	return url.PathEscape(s), nil
}

func escapeQuery(s string) (string, error) { return url.QueryEscape(s), noControls(s) }

// shownValue is how much of a refused value an error says.
const shownValue = 64

// noControls refuses control characters.
func noControls(s string) error {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("the value %q has a control character", shorten.To(s, shownValue))
	}
	return nil
}

// Static reports whether the address is the same for all messages.
func (t *Target) Static() bool { return t.path.Static() && t.query == nil }

// Base returns scheme and host of the URL, which all messages share.
func (t *Target) Base() *url.URL { return t.base }

// Address renders where a message goes, without anything secret.
func (t *Target) Address(msg *message.Message) (string, error) {
	address, err := t.path.Render(msg)
	if err != nil || t.query == nil {
		return address, err
	}
	query, err := t.query.Render(msg)
	if err != nil {
		return "", err
	}
	return address + "?" + query, nil
}

// Full returns the URL to request for an address.
func (t *Target) Full(address string) string {
	switch {
	case t.staticQuery == "":
		return address
	case strings.Contains(address, "?"):
		return address + "&" + t.staticQuery
	}
	return address + "?" + t.staticQuery
}

// Secrets returns what of the URL must not be repeated.
func (t *Target) Secrets() []string {
	var secrets []string
	if password, ok := t.User.Password(); ok {
		credentials := base64.StdEncoding.EncodeToString([]byte(t.User.Username() + ":" + password))
		secrets = append(secrets, password, credentials)
	}
	for p := range strings.SplitSeq(t.staticQuery, "&") {
		_, value, _ := strings.Cut(p, "=")
		secrets = append(secrets, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			secrets = append(secrets, plain)
		}
	}
	return secrets
}
