package http

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// DefaultStatuses is what statuses mean that [Config.Statuses] says nothing
// about. Those that are in neither follow from their class: 3xx is unavailable,
// 4xx permanent, 5xx transient.
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

// statuses is the table of one destination.
type statuses map[int]outbox.Kind

func newStatuses(override map[int]outbox.Kind) statuses {
	table := statuses(DefaultStatuses())
	maps.Copy(table, override)
	return table
}

func (t statuses) kind(status int) outbox.Kind {
	if kind, ok := t[status]; ok {
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
		return " (check the token and the headers)"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return " (check the URL)"
	case http.StatusProxyAuthRequired:
		return " (check the credentials of the proxy)"
	}
	return ""
}

// maxRetryAfter bounds what a receiver can ask for.
const maxRetryAfter = 24 * time.Hour

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

// errorOf builds the error of a status.
func errorOf(kind outbox.Kind, retry time.Duration, format string, args ...any) error {
	return &outbox.Error{Kind: kind, Err: fmt.Errorf(format, args...), RetryAfter: retry}
}
