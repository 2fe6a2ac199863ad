package httpx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is looked for in an answer.
const (
	echoLeast = 4        // bytes of a value: a shorter one says little, and is found where it is not meant
	echoPart  = 8        // so many bytes of a value in a row are found too
	echoMost  = 64 << 10 // of the answer
)

// MaskEcho returns the beginning of a receiver's answer, with *** in place of the values of payloads that it repeats. Names
// are shown, as they are in masked payloads; a payload that is no JSON is a value.
func MaskEcho(answer []byte, payloads ...[]byte) []byte {
	answer = answer[:min(len(answer), echoMost)]
	if len(answer) == 0 {
		return nil
	}
	hidden, parts := make([]bool, len(answer)+1), map[uint64][]int{}
	for i := 0; i+echoPart <= len(answer); i++ {
		part := binary.BigEndian.Uint64(answer[i:])
		parts[part] = append(parts[part], i)
	}
	hide := func(from, to int) {
		for i := from; i < to; i++ {
			hidden[i] = true
		}
	}
	for _, p := range payloads {
		for _, value := range leaves(p) {
			for _, text := range written(value) {
				eachPart(parts, text, hide)
				eachWord(answer, text, hide)
			}
		}
	}
	var out []byte
	for i, c := range answer {
		switch {
		case !hidden[i]:
			out = append(out, c)
		case !hidden[i+1]:
			out = append(out, "***"...)
		}
	}
	return out
}

// eachPart finds what a long text and an answer with these parts have in common.
func eachPart(parts map[uint64][]int, text string, found func(from, to int)) {
	part := uint64(0)
	for i := range len(text) {
		if part = part<<8 | uint64(text[i]); i+1 < echoPart {
			continue
		}
		for _, at := range parts[part] {
			found(at, at+echoPart)
		}
	}
}

// eachWord finds a short text where no word goes on before or behind it.
func eachWord(in []byte, text string, found func(from, to int)) {
	if len(text) < echoLeast || len(text) >= echoPart {
		return
	}
	word := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for at := 0; ; {
		i := bytes.Index(in[at:], []byte(text))
		if i < 0 {
			return
		}
		from, to := at+i, at+i+len(text)
		before, _ := utf8.DecodeLastRune(in[:from])
		after, _ := utf8.DecodeRune(in[to:])
		if (!word(before) || escaped.Match(in[max(0, from-6):from])) && !word(after) {
			found(from, to)
		}
		at = from + 1
	}
}

// leaves are the texts and numbers in a payload.
func leaves(payload []byte) (out []string) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var value any
	if !json.Valid(payload) || d.Decode(&value) != nil {
		return []string{string(payload)}
	}
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, v := range value {
				walk(v)
			}
		case []any:
			for _, v := range value {
				walk(v)
			}
		case string:
			out = append(out, value)
		case json.Number:
			out = append(out, value.String())
		}
	}
	walk(value)
	return out
}

var (
	escape  = regexp.MustCompile(`%[0-9A-F]{2}`)                                   // a percent-encoded byte
	escaped = regexp.MustCompile(`(%[0-9A-Fa-f]{2}|\\[bfnrt]|\\u[0-9a-fA-F]{4})$`) // text that ends with an escaped character
)

// written are the ways in which an answer may write a text: as it is, in JSON, in a URL, in HTML.
func written(text string) []string {
	var plain strings.Builder
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)      // never fails
	safe, _ := json.Marshal(text) // likewise; it has <, > and & as \u003c
	inside := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	slash := strings.NewReplacer("/", `\/`)
	inJSON, query, path := inside(strings.TrimSpace(plain.String())), url.QueryEscape(text), url.PathEscape(text)
	all := []string{text, inJSON, slash.Replace(inJSON), inside(string(safe)), slash.Replace(inside(string(safe))), inside(strconv.QuoteToASCII(text)),
		query, path, escape.ReplaceAllStringFunc(query, strings.ToLower), escape.ReplaceAllStringFunc(path, strings.ToLower), html.EscapeString(text)}
	slices.Sort(all)
	return slices.Compact(all)
}
