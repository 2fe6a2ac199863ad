package httpx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// Outcome turns what came of a request into an error with its kind. Addresses
// in its errors are shown without their query.
type Outcome struct {
	Name     string        // begins every error: "http"
	Timeout  time.Duration // of a request, for error texts
	Quote    int           // most bytes of an answer that an error quotes
	Statuses Statuses
	Secrets  Redactor

	ShowPayload bool // errors quote what an answer repeats of payloads
}

// noAnswerMost is how many bytes of net/http's text about an answer that is none are shown.
const noAnswerMost = 1 << 10

// Read returns the beginning of an answer, at most limit bytes, for the quote in
// an error. That is all it serves for, so what prevents reading does not matter.
func (o Outcome) Read(answer io.Reader, limit int) []byte {
	text, _ := io.ReadAll(io.LimitReader(answer, int64(limit)))
	if len(text) == limit {
		text = o.Secrets.Trim(text)
	}
	return text
}

// Answer makes a quote of a receiver's answer to a request with these payloads, of at most limit bytes.
func (o Outcome) Answer(answer []byte, limit int, payloads ...[]byte) string {
	if !o.ShowPayload {
		answer = MaskEcho([]byte(o.Secrets.replace.Replace(string(answer))), payloads...)
	}
	return o.Secrets.Quote(answer, limit)
}

// Refused is the error of an answer, whose status is no success, to a request with these payloads.
func (o Outcome) Refused(resp *http.Response, address string, answer []byte, payloads ...[]byte) error {
	status := resp.StatusCode
	kind := o.Statuses.Kind(status)
	if kind == outbox.KindSkip {
		return outbox.Skip("status " + strconv.Itoa(status))
	}
	quote := o.Answer(answer, o.Quote, payloads...)
	if quote != "" {
		quote = ": " + quote
	}
	after := retryAfter(resp.Header.Get("Retry-After"), clockOf(resp.Header, time.Now()))
	if status == http.StatusTooManyRequests {
		after = max(after, leastRetryAfter)
	}
	return &outbox.Error{
		Kind: kind,
		Err: fmt.Errorf("%s: %s answers %d %s%s%s", o.Name, Shown(address), status, http.StatusText(status),
			hint(status, o.Secrets.Location(resp.Header.Get("Location"))), quote),
		RetryAfter: after, Answered: kind != outbox.KindTransient,
	}
}

// NoAnswer is the error of a request without an answer: ctx is the caller's,
// limited the request's own. Without a connection nothing was sent; with one,
// whether it was sent is not known: what is no HTTP may repeat the payloads, too.
func (o Outcome) NoAnswer(ctx, limited context.Context, address string, connected bool, err error, payloads ...[]byte) error {
	at := Shown(address)
	switch {
	case ctx.Err() != nil:
		return o.Interrupted(ctx, address, connected)
	case !connected && limited.Err() != nil:
		return outbox.Unavailable(fmt.Errorf("%s: no connection to %s within %v", o.Name, at, o.Timeout), 0)
	case !connected:
		return outbox.Unavailable(fmt.Errorf("%s: no connection to %s: %s", o.Name, at, o.Secrets.Err(err)), 0)
	case limited.Err() != nil:
		return outbox.Transient(fmt.Errorf("%s: %s does not answer within %v", o.Name, at, o.Timeout), 0)
	}
	return outbox.Transient(fmt.Errorf("%s: no answer from %s: %s", o.Name, at, o.Answer([]byte(o.Secrets.Err(err)), noAnswerMost, payloads...)), 0)
}

// Interrupted is the error of a request that the caller's context ended.
func (o Outcome) Interrupted(ctx context.Context, address string, connected bool) error {
	at := Shown(address)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return outbox.Released(fmt.Errorf("%s: the request to %s was called off: %w", o.Name, at, ctx.Err()))
	case !connected:
		return outbox.Unavailable(fmt.Errorf("%s: no connection to %s in the time given: %w", o.Name, at, ctx.Err()), 0)
	}
	return outbox.Transient(fmt.Errorf("%s: no answer from %s in the time given: %w", o.Name, at, ctx.Err()), 0)
}

// NoRequest is the error of an address that no request can be made of.
func (o Outcome) NoRequest(address string) error {
	return outbox.Unavailable(fmt.Errorf("%s: %s is not a URL that can be requested", o.Name, Shown(address)), 0)
}
