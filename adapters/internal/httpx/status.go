package httpx

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// DefaultStatuses are the kinds of statuses that nothing else is said about. Those
// that are not in it follow from their class: 3xx is unavailable, 4xx permanent,
// 5xx transient.
func DefaultStatuses() map[int]outbox.Kind {
	return map[int]outbox.Kind{
		http.StatusRequestTimeout:      outbox.KindTransient, // 408
		http.StatusInternalServerError: outbox.KindTransient, // 500

		// The endpoint takes nothing now, or nothing from us; no message is
		// to blame.
		http.StatusUnauthorized:       outbox.KindUnavailable, // 401
		http.StatusForbidden:          outbox.KindUnavailable, // 403
		http.StatusNotFound:           outbox.KindUnavailable, // 404
		http.StatusMethodNotAllowed:   outbox.KindUnavailable, // 405
		http.StatusProxyAuthRequired:  outbox.KindUnavailable, // 407
		http.StatusTooManyRequests:    outbox.KindUnavailable, // 429
		http.StatusBadGateway:         outbox.KindUnavailable, // 502
		http.StatusServiceUnavailable: outbox.KindUnavailable, // 503
		http.StatusGatewayTimeout:     outbox.KindUnavailable, // 504

		http.StatusGone: outbox.KindGone, // 410

		http.StatusBadRequest:            outbox.KindPermanent, // 400
		http.StatusRequestEntityTooLarge: outbox.KindPermanent, // 413
		http.StatusUnprocessableEntity:   outbox.KindPermanent, // 422
	}
}

// Statuses is the table of one destination.
type Statuses struct {
	kinds    map[int]outbox.Kind
	accepted map[int]bool
}

// NewStatuses returns a table: what override says goes before what table says,
// and the statuses in accept are successes in addition to 2xx.
func NewStatuses(table, override map[int]outbox.Kind, accept []int) Statuses {
	s := Statuses{kinds: maps.Clone(table), accepted: map[int]bool{}}
	maps.Copy(s.kinds, override)
	for _, status := range accept {
		s.accepted[status] = true
	}
	return s
}

// CheckStatuses names the entries that no table can have.
func CheckStatuses(override map[int]outbox.Kind, accept []int) []error {
	var errs []error
	for status, kind := range override {
		if status < 300 || status > 599 {
			errs = append(errs, fmt.Errorf("statuses: %d cannot be given a meaning: only 300 to 599 can", status))
		}
		if (kind < outbox.KindTransient || kind > outbox.KindPermanent) && kind != outbox.KindSkip {
			errs = append(errs, fmt.Errorf("statuses: %d cannot be %v: use transient, unavailable, gone, permanent or skip", status, kind))
		}
	}
	for _, status := range accept {
		if status < 300 || status > 599 {
			errs = append(errs, fmt.Errorf("accept: %d cannot be given a meaning: only 300 to 599 can", status))
		}
	}
	return errs
}

// Success reports whether a status means that everything was delivered.
func (s Statuses) Success(status int) bool {
	return status >= 200 && status < 300 || s.accepted[status]
}

// Kind is the kind of error of a status that is no success.
func (s Statuses) Kind(status int) outbox.Kind {
	if kind, ok := s.kinds[status]; ok {
		return kind
	}
	switch {
	case status < 400:
		return outbox.KindUnavailable
	case status < 500:
		return outbox.KindPermanent
	}
	return outbox.KindTransient
}

// hint says what to do about a status that points at the configuration.
func hint(status int, location string) string {
	switch {
	case status >= 300 && status < 400 && location != "":
		return " (redirects are not followed: set the URL to " + location + " if that is right)"
	case status >= 300 && status < 400:
		return " (redirects are not followed: set the URL to where the endpoint is now)"
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return " (check the credentials: token, secrets, headers)"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return " (check the URL)"
	case http.StatusProxyAuthRequired:
		return " (check the credentials of the proxy)"
	}
	return ""
}

// leastRetryAfter is the pause after too many requests when the receiver does not say for how long.
const leastRetryAfter = 200 * time.Millisecond

// maxRetryAfter bounds what a receiver can ask for.
const maxRetryAfter = 24 * time.Hour

// clockOf is the receiver's time as it answered, by the header Date: a date that it
// gives is one of its own clock. This host's time where it gives none.
func clockOf(header http.Header, ours time.Time) time.Time {
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		return at
	}
	return ours
}

// retryAfter reads a Retry-After header: seconds or a date. 0: none.
func retryAfter(value string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		d = time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}
