package server

import (
	"errors"
	"net/http"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
)

// StatusOf is the HTTP status that says best what an error of an [operate.Operator] or a [console.Console] is.
func StatusOf(err error) int {
	_, unknown := errors.AsType[*operate.UnknownRoute](err)
	_, not := errors.AsType[operate.Refusal](err)
	_, wrong := errors.AsType[operate.Mistake](err)
	_, source := errors.AsType[*operate.UnknownSource](err)
	_, destination := errors.AsType[*operate.UnknownDestination](err)
	_, nowhere := errors.AsType[adapters.NoStart](err)
	switch {
	case unknown, source, destination, errors.Is(err, adapters.ErrNoOperation):
		return http.StatusNotFound
	case wrong, errors.Is(err, operate.ErrPlace):
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
