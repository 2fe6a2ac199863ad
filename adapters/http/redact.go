package http

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// redactor replaces secrets in texts that others wrote: an answer may repeat
// the token that it refuses.
type redactor struct{ replace *strings.Replacer }

// shortest is the length from which a value can be looked for: a shorter one
// would also be found where it is not meant, and is no secret.
const shortest = 4

func newRedactor(cfg Config, t *target) redactor {
	secrets := append(t.secrets(), cfg.Token)
	for _, v := range cfg.Headers {
		secrets = append(secrets, v)
		if _, credentials, ok := strings.Cut(v, " "); ok { // "Bearer abc"
			secrets = append(secrets, credentials)
		}
	}
	// Longer ones first: a secret may contain another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, s := range secrets {
		if len(s) >= shortest {
			pairs = append(pairs, s, "[redacted]")
		}
	}
	return redactor{strings.NewReplacer(pairs...)}
}

// maxQuote is how many bytes of an answer an error quotes.
const maxQuote = 200

// quote makes an answer's body fit for a line of text.
func (r redactor) quote(body []byte) string {
	s := r.replace.Replace(strings.ToValidUTF8(string(body), "\ufffd"))
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxQuote {
		end := maxQuote
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "..."
	}
	return s
}

// err returns the text of an error of net/http without the URL.
func (r redactor) err(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return r.replace.Replace(err.Error())
}

// location returns where a redirect points, without its query.
func (r redactor) location(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return r.replace.Replace(u.String())
}

// shown returns an address as errors name it: without a query.
func shown(address string) string {
	base, _, _ := strings.Cut(address, "?")
	return base
}
