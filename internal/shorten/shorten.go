// Package shorten bounds texts that others wrote: errors, and what applications name.
package shorten

import (
	"strings"
	"unicode/utf8"
)

// cutMark ends a text that was cut.
const cutMark = "... (cut)"

// maxTextBytes is the longest text that is kept in logs and in a state store: errors,
// and what applications name.
const maxTextBytes = 1 << 10

// Text returns the text, or as much of its beginning, with a mark at its end, as
// keeps it within 1 KiB: what goes to a log or a state store for people to read must
// not be as long as its writer likes. It cuts between characters.
func Text(text string) string { return To(text, maxTextBytes) }

// To is [Text] for another number of bytes, more than a few.
func To(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := max(most-len(cutMark), 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + cutMark
}

// Characters returns the first so many characters of a text, without a mark: for columns that keep as much of it.
func Characters(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i]
		}
	}
	return text
}

// Storable replaces what a character set does not have: the characters above the highest one of it.
func Storable(text string, highest rune) string {
	return strings.Map(func(r rune) rune {
		if r > highest {
			return '?'
		}
		return r
	}, text)
}
