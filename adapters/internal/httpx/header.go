package httpx

import (
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/outriderhq/outrider/outbox"
)

// Headers that identify the message of a request.
const (
	HeaderKey      = "Idempotency-Key" // the event id
	HeaderType     = "Outrider-Type"
	HeaderPosition = "Outrider-Position"
	HeaderLane     = "Outrider-Lane"
)

// Headers of a request with a dead message, whose receiver is a poison
// destination; see [outbox.Death].
const (
	HeaderGroup          = "Outrider-Group"
	HeaderPoisonReason   = "Outrider-Poison-Reason"
	HeaderPoisonError    = "Outrider-Poison-Error"
	HeaderPoisonAttempts = "Outrider-Poison-Attempts"
	HeaderPoisonRoute    = "Outrider-Poison-Route"
	HeaderPoisonAt       = "Outrider-Poison-At"
)

// poisonHeaders are the headers of a dead message by their metadata keys.
var poisonHeaders = map[string]string{
	outbox.MetaGroup: HeaderGroup, outbox.MetaPoisonReason: HeaderPoisonReason, outbox.MetaPoisonError: HeaderPoisonError,
	outbox.MetaPoisonAttempts: HeaderPoisonAttempts, outbox.MetaPoisonRoute: HeaderPoisonRoute, outbox.MetaPoisonAt: HeaderPoisonAt,
}

// Poison passes the headers of a dead message to set; for others it does nothing.
func Poison(meta map[string]string, set func(name, value string)) {
	if meta[outbox.MetaPoisonReason] == "" {
		return
	}
	for key, name := range poisonHeaders {
		if value := meta[key]; Safe(value) {
			set(name, value)
		}
	}
}

// Reserved reports whether only Outrider sets a header: receivers take what it says
// for ours.
func Reserved(name string) bool {
	const prefix = "outrider-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// UserAgent is how requests introduce themselves.
const UserAgent = "Outrider"

// Safe reports whether a value is there and can be a header: an id with a line
// break must not fail its request.
func Safe(value string) bool {
	return value != "" && httpguts.ValidHeaderFieldValue(value)
}

// CheckHeaders names headers of the configuration that cannot be sent; ours
// tells which ones the destination sets itself. Values are never quoted.
func CheckHeaders(headers map[string]string, ours func(name string) bool) []error {
	var errs []error
	for name, value := range headers {
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			errs = append(errs, fmt.Errorf("headers: %q is not a valid header name", name))
		case !httpguts.ValidHeaderFieldValue(value):
			errs = append(errs, fmt.Errorf("headers: the value of %s has a character that no header can hold", name))
		case ours(name):
			errs = append(errs, fmt.Errorf("headers: %s is set by Outrider", name))
		}
	}
	return errs
}
