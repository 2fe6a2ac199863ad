package lane

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/shorten"
	"github.com/outriderhq/outrider/outbox"
)

// tryBytes bounds the error of each remembered attempt.
const tryBytes = 500

// tries are the failed attempts of an item, for its parked row. Few items have any.
type tries struct {
	lastError string         // of the attempts so far
	list      []adapters.Try // never changed in place: rows that are to be written refer to it
}

// lastError is the error of the item's latest failed attempt; empty: none failed.
func (it *Item) lastError() string {
	if it.tries == nil {
		return ""
	}
	return it.tries.lastError
}

// failed remembers the attempt under way as failed.
func (it *Item) failed(cause error) {
	if cause == nil {
		return
	}
	if it.tries == nil {
		it.tries = &tries{}
	}
	t := it.tries
	t.lastError = textOf(cause)
	rest := t.list[max(len(t.list)-adapters.TriesMost+1, 0):]
	t.list = append(slices.Clone(rest), adapters.Try{Number: it.Attempt.Number, At: time.Now(), Error: shorten.To(t.lastError, tryBytes)})
}

// textOf is an error as it is kept and shown: without when the next attempt is, which is told beside it and differs each time.
func textOf(err error) string {
	text := err.Error()
	if d, ok := errors.AsType[*outbox.Decision](err); ok && d.Outcome == outbox.OutcomeRetry && d.Err != nil {
		return strings.Replace(text, d.Error(), textOf(d.Err), 1)
	}
	return text
}

// restore takes over what a parked row says of failed attempts.
func (it *Item) restore(row *adapters.Parked) {
	if row.LastError != "" || len(row.Tries) > 0 {
		it.tries = &tries{lastError: row.LastError, list: row.Tries}
	}
}

// remembered are the failed attempts that the item's row has.
func (it *Item) remembered() []adapters.Try {
	if it.tries == nil {
		return nil
	}
	return it.tries.list
}
