package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
)

// Problem is an error with its HTTP status.
type Problem struct {
	Status int
	Text   string
}

// Error is the text.
func (p *Problem) Error() string { return p.Text }

// Failed makes a [Problem].
func Failed(status int, format string, args ...any) error {
	return &Problem{status, fmt.Sprintf(format, args...)}
}

// StatusOf is the HTTP status that says best what an error of an [operate.Operator] or a [console.Console] is.
func StatusOf(err error) int {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status
	}
	_, unknown := errors.AsType[*operate.UnknownRoute](err)
	_, not := errors.AsType[operate.Refusal](err)
	_, wrong := errors.AsType[operate.Mistake](err)
	_, source := errors.AsType[*operate.UnknownSource](err)
	_, destination := errors.AsType[*operate.UnknownDestination](err)
	_, nowhere := errors.AsType[adapters.NoStart](err)
	switch {
	case unknown, source, destination, errors.Is(err, adapters.ErrNoOperation):
		return http.StatusNotFound
	case wrong, errors.Is(err, operate.ErrPageToken):
		return http.StatusUnprocessableEntity
	case not, nowhere, errors.Is(err, operate.ErrNoGroups), errors.Is(err, adapters.ErrAmbiguousID):
		return http.StatusConflict
	case errors.Is(err, console.ErrBusy):
		return http.StatusTooManyRequests
	case errors.Is(err, console.ErrNoReload):
		return http.StatusNotImplemented
	case operate.IsForbidden(err):
		return http.StatusForbidden
	case operate.IsUnavailable(err), errors.Is(err, console.ErrUnavailable), errors.Is(err, console.ErrEnded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
