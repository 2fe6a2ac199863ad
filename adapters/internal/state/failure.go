package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"regexp"

	"github.com/outriderhq/outrider/adapters"
)

// routeBits are how many bits of a failure's name are those of its route.
const routeBits = 24

var (
	addressIn = regexp.MustCompile(`https?://[^\s"'<>,;]*[^\s"'<>,;:.)]`)
	varying   = regexp.MustCompile(`"[^"]*"|'[^']*'|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b|\b[0-9A-Za-z]*[0-9][0-9A-Za-z]*\b`)
)

// AddressIn is the URL that an error names; empty: it names none.
func AddressIn(text string) string { return addressIn.FindString(text) }

// Failure names the group of a message that failed, of its route, type and error: errors are
// the same one that differ in numbers, ids and quoted texts only. The name is positive; those of a route are
// in [FailuresOf].
func Failure(route, typ, text string) int64 {
	const most = 4 << 10 // of a longer one the beginning says what it is
	if len(text) > most {
		text = text[:most]
	}
	shape := varying.ReplaceAllString(addressIn.ReplaceAllString(text, "@"), "#")
	sum := sha256.Sum256([]byte(route + "\x00" + AddressIn(text) + "\x00" + typ + "\x00" + shape))
	low, _ := FailuresOf(route)
	return low | int64(binary.BigEndian.Uint64(sum[:8])>>(1+routeBits))
}

// FailuresOf returns the first and the last name that a failure of a route can have. Another
// route may have names among them, which is unlikely.
func FailuresOf(route string) (first, last int64) {
	sum := sha256.Sum256([]byte(route))
	const rest = 63 - routeBits
	first = int64(binary.BigEndian.Uint64(sum[:8])>>(64-routeBits)) << rest
	return first, first | (1<<rest - 1)
}

// FailureColumn is the column failure of a message; nil: nothing failed.
func FailureColumn(route string, p *adapters.Parked) *int64 {
	if p.LastError == "" {
		return nil
	}
	name := Failure(route, p.Type, p.LastError)
	return &name
}

// EncodeTries returns failed attempts as a JSON array.
func EncodeTries(tries []adapters.Try) string {
	if len(tries) == 0 {
		return "[]"
	}
	clean := make([]adapters.Try, len(tries))
	for i, t := range tries {
		t.Error, t.At = Clean(t.Error), t.At.UTC()
		clean[i] = t
	}
	b, _ := json.Marshal(clean) // such structs cannot fail to encode
	return string(b)
}

// DecodeTries is the inverse of [EncodeTries]. They are for people: what cannot be read is left out.
func DecodeTries(text string) (tries []adapters.Try) {
	if text == "[]" || json.Unmarshal([]byte(text), &tries) != nil {
		return nil
	}
	return tries
}
