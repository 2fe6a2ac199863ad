package outbox

import "unicode/utf8"

// cutMark ends a text that was cut.
const cutMark = "... (cut)"

// maxTextBytes is the longest text that is kept in logs and in a state store: errors,
// and what applications name.
const maxTextBytes = 1 << 10

// Cut returns the text, or as much of its beginning, with a mark at its end, as
// keeps it within 1 KiB: what goes to a log or a state store for people to read must
// not be as long as whoever wrote it likes. It cuts between characters.
func Cut(text string) string { return CutTo(text, maxTextBytes) }

// CutTo is [Cut] for another number of bytes, more than a few.
func CutTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := max(most-len(cutMark), 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + cutMark
}
