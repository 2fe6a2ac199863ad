package form

import (
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// masked replaces a secret.
const masked = "***"

// Secret is a text that no way of printing shows. The zero value is "not set".
type Secret struct {
	// A pointer, so that even reflection-based printers that reach into
	// unexported fields show an address at most.
	value *string
}

// NewSecret makes a secret of a text; an empty text is "not set".
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text. Its result belongs into a connection, not a message.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the secret is not set.
func (s Secret) IsZero() bool { return s.value == nil }

// String masks the text.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return masked
}

// Format masks the text under every verb.
func (s Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, s.String()) }

// MarshalText masks the text in JSON, YAML and logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Parse implements [Scalar].
func (s *Secret) Parse(text string) error {
	if strings.ContainsAny(text, "\r\n\x00") {
		return Expected("a single line of text")
	}
	*s = NewSecret(text)
	return nil
}

// Spelling implements [Scalar].
func (*Secret) Spelling() Spelling { return Spelling{Name: "string", Secret: true} }

// SecretURL is a URL (or path) whose password and parameters are secret: it
// prints without them.
type SecretURL struct{ secret Secret }

// NewSecretURL makes one of its text.
func NewSecretURL(text string) SecretURL { return SecretURL{NewSecret(text)} }

// Reveal returns the whole URL.
func (s SecretURL) Reveal() string { return s.secret.Reveal() }

// IsZero reports whether the URL is not set.
func (s SecretURL) IsZero() bool { return s.secret.IsZero() }

// Scheme is the part before ://, in lower case; empty for a path.
func (s SecretURL) Scheme() string {
	scheme, _, ok := strings.Cut(s.Reveal(), "://")
	if !ok {
		return ""
	}
	return strings.ToLower(scheme)
}

// String shows scheme, user, host and path; the password and the values of
// parameters are masked. A URL that cannot be taken apart is masked as a whole.
func (s SecretURL) String() string {
	text := s.Reveal()
	if text == "" {
		return ""
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Opaque != "" || strings.Contains(parsed.Path, "@") || // a password with a slash in it
		parsed.Fragment != "" || strings.ContainsAny(text, " =") && parsed.Scheme == "" {
		return masked // a DSN of the form "host=... password=..." among others
	}
	var b strings.Builder
	if parsed.Scheme != "" {
		b.WriteString(parsed.Scheme + "://")
	}
	if name := parsed.User.Username(); name != "" {
		b.WriteString(url.User(name).String())
	}
	if _, ok := parsed.User.Password(); ok {
		b.WriteString(":" + masked)
	}
	if parsed.User != nil {
		b.WriteString("@")
	}
	b.WriteString(parsed.Host + parsed.EscapedPath())
	if parsed.RawQuery != "" {
		b.WriteString("?" + maskQuery(parsed.RawQuery))
	}
	return b.String()
}

// plainParameter is a parameter of a PostgreSQL URL that is no secret, with a
// value that holds none.
var plainParameter = regexp.MustCompile(`^(sslmode=(disable|allow|prefer|require|verify-ca|verify-full)|connect_timeout=[0-9]{1,6})$`)

// maskQuery shows the parameters that are known to be no secrets.
func maskQuery(query string) string {
	var shown []string
	for part := range strings.SplitSeq(query, "&") {
		if plainParameter.MatchString(part) {
			shown = append(shown, part)
		} else if !slices.Contains(shown, masked) {
			shown = append(shown, masked)
		}
	}
	return strings.Join(shown, "&")
}

// Format masks the secret parts under every verb.
func (s SecretURL) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, s.String()) }

// MarshalText masks the secret parts in JSON, YAML and logs.
func (s SecretURL) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Parse implements [Scalar].
func (s *SecretURL) Parse(text string) error { return s.secret.Parse(text) }

// Spelling implements [Scalar].
func (*SecretURL) Spelling() Spelling { return Spelling{Name: "URL", Secret: true, Address: true} }

var (
	urlLogin = regexp.MustCompile(`(://)[^/\s]*@`)
	urlQuery = regexp.MustCompile(`(://[^?\s]*\?)\S+`)
)

// maskURL hides logins and parameters of the URLs in a text.
func maskURL(text string) string {
	text = urlLogin.ReplaceAllString(text, "${1}"+masked+"@")
	return urlQuery.ReplaceAllString(text, "${1}"+masked)
}
