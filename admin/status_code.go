package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
)

// refusal is the error of a change that the state of its route, or the kind of its source, does not allow.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// refused makes a [refusal].
func refused(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// mistake is the error of a request that asks for what there cannot be.
type mistake struct{ error }

func (m mistake) Unwrap() error { return m.error }

// StatusOf is the HTTP status that says best what an error of an [Operator] or a [Console] is.
func StatusOf(err error) int {
	var state interface{ SQLState() string } // of PostgreSQL
	_, unknown := errors.AsType[*UnknownRoute](err)
	_, not := errors.AsType[refusal](err)
	_, wrong := errors.AsType[mistake](err)
	_, source := errors.AsType[*unknownSource](err)
	_, destination := errors.AsType[*unknownDestination](err)
	_, nowhere := errors.AsType[adapters.NoStart](err)
	_, _, away := assembly.ConnectionProblem(err)
	switch {
	case unknown, source, destination, errors.Is(err, adapters.ErrNoOperation):
		return http.StatusNotFound
	case wrong, errors.Is(err, ErrPlace):
		return http.StatusUnprocessableEntity
	case not, nowhere, errors.Is(err, ErrNoGroups), errors.Is(err, adapters.ErrAmbiguousID):
		return http.StatusConflict
	case errors.Is(err, ErrBusy):
		return http.StatusTooManyRequests
	case errors.Is(err, ErrNoReload):
		return http.StatusNotImplemented
	case errors.As(err, &state) && state.SQLState() == "42501": // insufficient_privilege
		return http.StatusForbidden
	case away, errors.Is(err, ErrUnavailable), errors.Is(err, errShut), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Knows reports whether the configuration or the state has a route.
func (op *Operator) Knows(ctx context.Context, route string) (bool, error) {
	if op.configured(route) {
		return true, nil
	}
	lanes, err := op.cursors(ctx, nil)
	return slices.ContainsFunc(lanes, func(l adapters.LaneStatus) bool { return l.Route == route }), err
}
