package httpx

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Redactor replaces secrets in texts that others wrote: an answer may repeat
// the token that it refuses.
type Redactor struct {
	secrets []string
	replace *strings.Replacer
}

// shortest is the length from which a value can be looked for: a shorter one
// would also be found where it is not meant, and is no secret.
const shortest = 4

// NewRedactor returns a redactor of these secrets, however an answer writes them.
func NewRedactor(secrets []string) Redactor {
	var all []string
	for _, s := range secrets {
		all = append(all, written(s)...)
	}
	// Longer ones first: a secret may contain another.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	var r Redactor
	var pairs []string
	for _, s := range all {
		if len(s) >= shortest {
			r.secrets = append(r.secrets, s)
			pairs = append(pairs, s, "[redacted]")
		}
	}
	r.replace = strings.NewReplacer(pairs...)
	return r
}

// Trim takes what may be the beginning of a secret off the end of a text that
// was cut there.
func (r Redactor) Trim(text []byte) []byte {
	keep := len(text)
	for _, s := range r.secrets {
		for n := min(len(s), len(text)); n > len(text)-keep; n-- {
			if string(text[len(text)-n:]) == s[:n] {
				keep = len(text) - n
			}
		}
	}
	return text[:keep]
}

// HeaderSecrets returns what of the values of headers must not be repeated.
func HeaderSecrets(headers map[string]string) []string {
	var secrets []string
	for _, v := range headers {
		secrets = append(secrets, v)
		if _, credentials, ok := strings.Cut(v, " "); ok { // "Bearer abc"
			secrets = append(secrets, credentials)
		}
	}
	return secrets
}

// Quote makes an answer's body fit for a line of text of at most limit bytes.
func (r Redactor) Quote(body []byte, limit int) string {
	s := r.replace.Replace(strings.ToValidUTF8(string(body), "\ufffd"))
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return ' ' // of a terminal, or turning the direction of the text
		}
		return c
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if limit <= 0 {
		return ""
	}
	if len(s) > limit {
		end := limit
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "..."
	}
	return s
}

// Err returns the text of an error of net/http without the URL.
func (r Redactor) Err(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return r.replace.Replace(err.Error())
}

// Location returns where a redirect points, without its query.
func (r Redactor) Location(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return r.replace.Replace(u.String())
}

// Shown returns an address as errors name it: without a query.
func Shown(address string) string {
	base, _, _ := strings.Cut(address, "?")
	return base
}
