package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

func (b *Builder) checkPayload() error {
	n := len(b.env.payload)
	switch {
	case b.payloads == 0:
		return errors.New("is required; call one of JSON, RawJSON and Bytes")
	case b.payloads > 1:
		return fmt.Errorf("was set %d times; call one of JSON, RawJSON and Bytes once", b.payloads)
	case b.encodeErr != nil:
		return fmt.Errorf("cannot be encoded (%w); give JSON a value that it supports", b.encodeErr)
	case n > MaxPayloadBytes:
		return fmt.Errorf("is %d bytes, the limit is %d; store large content elsewhere and publish where it is", n, MaxPayloadBytes)
	case b.env.binary:
		return nil
	}
	return CheckJSON(b.env.payload)
}

// CheckJSON returns an error for text that a JSON payload must not be: invalid
// syntax or UTF-8, and the escape \u0000 or that of an unpaired surrogate.
// PostgreSQL does store such escapes in a json column, but then every `->>`
// and every cast to jsonb that meets the row fails, whichever field it asks
// for: one such row would break the queries of operators and receivers.
func CheckJSON(raw []byte) error {
	if !json.Valid(raw) {
		return fmt.Errorf("is not valid JSON (%s); publish other data with Bytes", syntaxProblem(raw))
	}
	if !utf8.Valid(raw) {
		return errors.New("is not valid UTF-8; publish it with Bytes")
	}
	return checkEscapes(raw)
}

// syntaxProblem says where JSON text goes wrong.
func syntaxProblem(raw []byte) string {
	var v json.RawMessage
	err := json.Unmarshal(raw, &v)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("at byte %d: %v", syntax.Offset, err)
	}
	return fmt.Sprint(err)
}

var (
	errNulEscape       = errors.New(`contains the escape \u0000, which PostgreSQL cannot turn into text; remove it or publish with Bytes`)
	errSurrogateEscape = errors.New(`contains the escape of an unpaired surrogate, which PostgreSQL cannot turn into text; remove it or publish with Bytes`)
)

// checkEscapes finds \u escapes that encode no character. The text must
// be valid JSON: a backslash is then always inside a string and never its end.
func checkEscapes(raw []byte) error {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return nil
		}
		code, ok := unicodeEscape(raw[i:])
		if !ok {
			raw = raw[i+2:]
			continue
		}
		raw = raw[i+6:]
		if code == 0 {
			return errNulEscape
		}
		if !utf16.IsSurrogate(code) {
			continue
		}
		low, ok := unicodeEscape(raw)
		if !ok || utf16.DecodeRune(code, low) == utf8.RuneError {
			return errSurrogateEscape
		}
		raw = raw[6:]
	}
}

// unicodeEscape reads an escape of the form \uXXXX at the start of the text.
func unicodeEscape(raw []byte) (code rune, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n), err == nil
}
