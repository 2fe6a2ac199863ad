// Package shorten limits texts from outside: errors, and names that applications choose.
package shorten

import (
	"strings"
	"unicode/utf8"
)

// cutMark ends a text that was cut.
const cutMark = "... (cut)"

// maxTextBytes is the longest text in logs and in a state store.
const maxTextBytes = 1 << 10

// Text cuts a text to 1 KiB, between characters and with a mark at its end, so that
// texts from outside cannot fill a log or a state store.
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

// Characters returns the first characters of a text, without a mark, for columns of that length.
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

// Storable replaces the characters above the highest one of a character set.
func Storable(text string, highest rune) string {
	return strings.Map(func(r rune) rune {
		if r > highest {
			return '?'
		}
		return r
	}, text)
}
