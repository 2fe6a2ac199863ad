package adapters

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/internal/shorten"
	"github.com/outriderhq/outrider/outbox"
)

// Limits of a row that is read. They are wider than those of an [outbox.Envelope], because
// not every row is written by a [outbox.Client]. A row beyond them is dead with an error
// that names the limit, and its oversized part is not read.
const (
	// DefaultMaxRow is the largest payload that is read unless a source says
	// otherwise, in bytes: 16 MiB.
	DefaultMaxRow = 16 << 20

	// MaxRowNameBytes is the longest id, type, group, aggregate type, aggregate id
	// and tenant, in bytes: 1 KiB.
	MaxRowNameBytes = 1 << 10

	// MaxRowMetadataBytes is the largest JSON object of headers, and of tags, in
	// bytes: 1 MiB.
	MaxRowMetadataBytes = 1 << 20

	// MaxRowPairs is the most headers, and the most tags, of one row.
	MaxRowPairs = outbox.MaxPairs
)

// ErrTooLarge is wrapped by the Err of a row beyond a limit.
var ErrTooLarge = errors.New("too large")

// PayloadTooLarge is the error of a row whose payload was not read. Stored is its
// size in the database in bytes, possibly compressed; again describes how to deliver
// the row after the limit was raised.
func PayloadTooLarge(stored, limit int64, again string) error {
	size := fmt.Sprintf("%d bytes", stored)
	if stored <= limit {
		size = fmt.Sprintf("%d bytes compressed, more when read", stored)
	}
	return fmt.Errorf("%w: it has %s; max_row of the source is %d bytes; to deliver it, raise max_row and %s",
		ErrTooLarge, size, limit, again)
}

// NotStrings describes why encoding/json could not decode a text into a map of
// strings. It names the JSON type that was found, not the Go type that was expected.
func NotStrings(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("not a JSON object of strings: found %s at byte %d", wrong.Value, wrong.Offset)
	}
	return fmt.Errorf("not a JSON object of strings: %w", err)
}

// CheckPairs returns an error for a JSON object with more members, or of more bytes,
// than headers or tags may have. It does not say whether the text is valid JSON.
func CheckPairs(object []byte) error {
	const shortest = 4 // of a member: "":1
	switch {
	case len(object) > MaxRowMetadataBytes:
		return fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrTooLarge, len(object), MaxRowMetadataBytes)
	case len(object) <= MaxRowPairs*shortest:
		return nil
	}
	if members(object) > MaxRowPairs {
		return fmt.Errorf("%w: it has more than %d members", ErrTooLarge, MaxRowPairs)
	}
	return nil
}

// members counts the members of a JSON object: the colons between its names and its
// values, without those in texts and in objects inside.
func members(object []byte) int {
	n, depth, quoted := 0, 0, false
	for i := 0; i < len(object); i++ {
		switch c := object[i]; {
		case quoted && c == '\\':
			i++ // what follows ends no text
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ':' && depth == 1:
			n++
		}
	}
	return n
}

// Limit cuts names that are too long, and removes times that a message cannot carry. It returns an error that says which; nil: none
// was.
func (r *Row) Limit() error {
	if len(r.ID) <= MaxRowNameBytes && len(r.Group) <= MaxRowNameBytes {
		return r.LimitAttributes()
	}
	return errors.Join(limitName("id", &r.ID), limitName("group", &r.Group), r.LimitAttributes())
}

// LimitAttributes is [Row.Limit] for all but the id and the group, by which rows of
// a queue are settled and claimed.
func (r *Row) LimitAttributes() error {
	if max(len(r.Type), len(r.AggregateType), len(r.AggregateID), len(r.Tenant)) <= MaxRowNameBytes && Carried(r.CreatedAt) && Carried(r.OccurredAt) {
		return nil
	}
	return errors.Join(limitTime("created_at", &r.CreatedAt), limitTime("occurred_at", &r.OccurredAt), limitName("type", &r.Type), limitName("aggregate_type", &r.AggregateType),
		limitName("aggregate_id", &r.AggregateID), limitName("tenant", &r.Tenant))
}

// Carried reports whether a message and JSON can carry a time: one whose year has at most four digits.
func Carried(t time.Time) bool {
	const first, last = -62_167_219_200, 253_402_300_799 // seconds since 1970
	return first <= t.Unix() && t.Unix() <= last
}

func limitTime(what string, at *time.Time) error {
	if Carried(*at) {
		return nil
	}
	year := at.Year()
	*at = time.Time{}
	return fmt.Errorf("%s: a message cannot carry a time of the year %d", what, year)
}

func limitName(what string, name *string) error {
	if len(*name) <= MaxRowNameBytes {
		return nil
	}
	*name = shorten.Text(*name)
	return fmt.Errorf("%s: %w: the limit is %d bytes", what, ErrTooLarge, MaxRowNameBytes)
}

// PanicError is the error of an attempt in which code that was supplied panicked.
// It carries no kind, so it is transient, and it does not unwrap to the value of
// the panic, whatever that is. Its text is short, because it is kept with the
// message; the stack is for the log.
type PanicError struct {
	Who   string // what panicked: "the destination"
	Value any    // what it panicked with
	Place string // file and line, the same for each time that it happens there
	Stack string
}

// Error says what panicked, where and with what.
func (e *PanicError) Error() string {
	return fmt.Sprintf("%s panicked at %s: %v", e.Who, e.Place, e.Value)
}

// Recovered returns the error for what recover returned. Call it from the deferred
// function that recovers: the stack is still that of the panic then.
func Recovered(who string, value any) error {
	return &PanicError{Who: who, Value: value, Place: panicPlace(), Stack: string(debug.Stack())}
}

// panicPlace is where the latest panic began: below the frames of the runtime,
// which are several when the runtime itself panicked.
func panicPlace() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for panicking := false; ; {
		f, more := frames.Next()
		switch ours := !strings.HasPrefix(f.Function, "runtime."); {
		case f.Function == "runtime.gopanic":
			panicking = true
		case panicking && ours:
			return filepath.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
