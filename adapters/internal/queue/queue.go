package queue

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

// LongestError is how much of an error is kept in a table, in characters.
const LongestError = 4000

// Error makes an error fit for a column of text: at most [LongestError] characters, and none that a database refuses.
func Error(text string) string {
	return shorten.Characters(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), ""), LongestError)
}

var uuid = regexp.MustCompile("^[0-9a-fA-F-]{32,36}$")

// Names reports whether an id that an operator gives is that of a row which the database found by it. A database may compare only the beginning
// of an id with a number, or take letters for equal. The digits of a UUID have no case.
func Names(id, row string) bool {
	return id == row || uuid.MatchString(id) && strings.EqualFold(id, row)
}

// GroupNames are the groups that an operator may mean, as the column has them: a group is named as messages have it, with the kind of
// the table, or as the column has it.
func GroupNames(kind, group string) []string {
	if name, ok := strings.CutPrefix(group, kind+":"); ok && kind != "" {
		return []string{group, name}
	}
	return []string{group}
}

// StatusOf returns the meaning of a value of the status column.
func StatusOf(l *layout.Queue, value string) adapters.RowStatus {
	switch s := &l.Statuses; value {
	case "": // no layout has it
		return adapters.RowOther
	case s.Pending, s.Again():
		return adapters.RowWaiting
	case s.Processing:
		return adapters.RowProcessing
	case s.Done:
		return adapters.RowDone
	}
	if slices.Contains(l.Dead(), value) {
		return adapters.RowDead
	}
	if n, err := strconv.Atoi(value); err == nil && strconv.Itoa(n) != value { // of a column with leading zeros
		return StatusOf(l, strconv.Itoa(n))
	}
	return adapters.RowOther
}
