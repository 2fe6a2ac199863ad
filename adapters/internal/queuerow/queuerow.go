// Package queuerow holds what adapters of queue tables have in common, whatever the database: what the values of a row's columns mean.
package queuerow

import (
	"slices"
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

// StatusOf is what a value of the status column means.
func StatusOf(l *layout.Queue, value string) adapters.RowStatus {
	switch s := &l.Statuses; value {
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
	return adapters.RowOther
}
