package form

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// excerpt is a source line with a caret below one of its columns. It shows what
// has been decoded into fields that are not secret, and the punctuation of YAML; all
// else is masked, because under a misspelt key anything may be a secret.
func (c *Checker) excerpt(line, col int) string {
	text, col := c.maskLine(line, col)
	text, col = window([]rune(text), col)
	number := fmt.Sprintf("%4d", line)
	return fmt.Sprintf("%s | %s\n%s | %s^\n", number, text, strings.Repeat(" ", len(number)), strings.Repeat(" ", col-1))
}

// maskLine returns what may be shown of a line, and where a column is in it.
func (c *Checker) maskLine(line, col int) (string, int) {
	source := []rune(c.lines[line-1])
	if c.tokens == nil {
		return c.maskWords(source, col)
	}
	m := masker{caret: col}
	at := 0
	for i, t := range c.tokens[line] {
		if t.Type == token.CommentType {
			break
		}
		start := clamp(t.Position.Column-1, at, len(source))
		end := len(source)
		if i+1 < len(c.tokens[line]) {
			end = clamp(c.tokens[line][i+1].Position.Column-1, start, len(source))
		}
		if i == 0 {
			m.copy(source[:start], isBlank(source[:start]), 0, masked)
		}
		isKey := i+1 < len(c.tokens[line]) && c.tokens[line][i+1].Type == token.MappingValueType
		m.copy(source[start:end], c.shown[t] || isPunctuation(t.Type) || isKey && c.vocabulary()[t.Value], start, cmp.Or(c.masks[t], masked))
		at = end
	}
	if len(c.tokens[line]) == 0 {
		m.copy(source, isBlank(source), 0, masked)
	}
	if m.column == 0 {
		m.column = m.length + 1
	}
	return strings.TrimRight(m.out.String(), " "), m.column
}

// masker copies parts of a line and keeps track of where the caret goes.
type masker struct {
	out    strings.Builder
	length int
	caret  int // column in the source
	column int // column in the output
}

// copy adds a part that begins at an offset of the source line; a part that is
// not to be shown becomes the mask, with the blanks around it kept.
func (m *masker) copy(part []rune, show bool, offset int, mask string) {
	text, inside := plain(part), m.caret-1-offset
	if !show {
		before := len(text) - len(strings.TrimLeft(text, " "))
		after := len(text) - len(strings.TrimRight(text, " "))
		text = text[:before] + mask + text[len(text)-after:]
		inside = min(inside, before)
	}
	if m.column == 0 && m.caret <= offset+len(part) {
		m.column = m.length + max(inside, 0) + 1
	}
	m.out.WriteString(text)
	m.length += runes(text)
}

// isPunctuation reports whether a token is punctuation.
func isPunctuation(t token.Type) bool {
	switch t {
	case token.MappingStartType, token.MappingEndType, token.SequenceStartType, token.SequenceEndType,
		token.CollectEntryType, token.MappingValueType, token.SequenceEntryType, token.MappingKeyType,
		token.LiteralType, token.FoldedType, token.AnchorType, token.AliasType, token.MergeKeyType,
		token.DocumentHeaderType, token.DocumentEndType:
		return true
	}
	return false
}

// word matches what is masked in a line that cannot be parsed.
var word = regexp.MustCompile(`[^\s\[\]{},:"'#-]+(?:-[^\s\[\]{},:"'#-]+)*`)

// maskWords shows punctuation and words of our own vocabulary only: in a line
// that is not YAML any word may be a secret.
func (c *Checker) maskWords(source []rune, col int) (string, int) {
	text := plain(source)
	if i := strings.Index(text, " #"); i >= 0 {
		text = text[:i]
	}
	show := c.vocabulary()
	var b strings.Builder
	last, column := 0, 0
	for _, span := range append(word.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		gap, w := text[last:span[0]], text[span[0]:span[1]]
		if column == 0 && col <= runes(text[:span[1]]) {
			column = runes(b.String()) + max(1, min(col-runes(text[:last]), runes(gap)+1))
		}
		b.WriteString(gap)
		if w != "" && !show[w] {
			w = masked
		}
		b.WriteString(w)
		last = span[1]
	}
	if column == 0 {
		column = runes(b.String()) + 1
	}
	return b.String(), column
}

// window cuts a long line down to what surrounds the caret.
func window(text []rune, col int) (string, int) {
	const width = 110
	col = clamp(col, 1, len(text)+1)
	if len(text) <= width {
		return string(text), col
	}
	from := clamp(col-width/2, 0, len(text)-width)
	cut := string(text[from : from+width])
	if from > 0 {
		return "..." + cut, col - from + 3
	}
	return cut + "...", col
}

// plain makes one visible column of each character.
func plain(part []rune) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F {
			return ' '
		}
		return r
	}, string(part))
}

func isBlank(part []rune) bool { return strings.TrimSpace(string(part)) == "" }

func runes(s string) int { return len([]rune(s)) }

func clamp(n, low, high int) int { return max(low, min(n, high)) }
