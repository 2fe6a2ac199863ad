package pg

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// LongestName is PostgreSQL's limit on identifiers, in bytes.
const LongestName = 63

// ParseTable reads the name of a table as SQL does: parts are separated by
// dots, a part in double quotes is taken as it is, any other is folded to lower
// case.
func ParseTable(name string) (pgx.Identifier, error) {
	var parts pgx.Identifier
	rest := name
	for {
		part, after, err := cutPart(rest)
		if err != nil {
			return nil, fmt.Errorf("table %q: %w; write table, schema.table or \"Quoted\".\"Table\"", name, err)
		}
		parts = append(parts, part)
		if after == "" {
			break
		}
		rest = after[1:]
	}
	if len(parts) > 2 {
		return nil, fmt.Errorf("table %q: has %d parts; write table or schema.table", name, len(parts))
	}
	return parts, nil
}

// cutPart takes one part off a dotted name; after is empty or begins with the dot.
func cutPart(s string) (part, after string, err error) {
	if strings.HasPrefix(s, `"`) {
		part, after, err = cutQuoted(s)
	} else {
		end := strings.IndexByte(s, '.')
		if end < 0 {
			end = len(s)
		}
		part, after = strings.ToLower(s[:end]), s[end:]
		if strings.ContainsAny(part, "\" \t\r\n;") {
			err = fmt.Errorf("%q needs double quotes", part)
		}
	}
	switch {
	case err != nil:
	case part == "":
		err = errors.New("a part is empty")
	case !PlainText(part):
		err = errors.New("a part has a control character, or is not valid text")
	case len(part) > LongestName:
		err = fmt.Errorf("%q is longer than %d bytes", part, LongestName)
	}
	return part, after, err
}

// PlainText reports whether a text can be part of a statement that people read and
// pass on: a line break in a name would end a comment of printed SQL.
func PlainText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// cutQuoted takes a part in double quotes, in which "" stands for one quote.
func cutQuoted(s string) (part, after string, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			b.WriteByte('"')
			i++
			continue
		}
		after = s[i+1:]
		if after != "" && (after[0] != '.' || after == ".") {
			return "", "", errors.New("a dot and a name must follow the quoted part")
		}
		return b.String(), after, nil
	}
	return "", "", errors.New("a quote is not closed")
}

// DerivedName names something that belongs to the table. The table's name is cut
// where the whole would be too long.
func DerivedName(table pgx.Identifier, suffix string) string {
	name := table[len(table)-1]
	for name != "" && len(name)+len(suffix) > LongestName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name + suffix
}

// Beside qualifies a name with the table's schema.
func Beside(table pgx.Identifier, name string) pgx.Identifier {
	if len(table) == 1 {
		return pgx.Identifier{name}
	}
	return pgx.Identifier{table[0], name}
}

// QuoteName quotes a column.
func QuoteName(name string) string { return pgx.Identifier{name}.Sanitize() }

// Literal quotes a text constant; its type follows from its place.
func Literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// Literals quotes a list for IN.
func Literals(values ...string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = Literal(v)
	}
	return strings.Join(quoted, ", ")
}

// NameOf reads the name of a table; one that cannot be read as SQL is quoted as a
// whole.
func NameOf(table string) pgx.Identifier {
	name, err := ParseTable(table)
	if err != nil {
		return pgx.Identifier{table}
	}
	return name
}

// quotedNames are the quoted names, with commas.
func quotedNames(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = QuoteName(name)
	}
	return strings.Join(quoted, ", ")
}
