package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
)

// StatusOf is the HTTP status that says best what an error of an [Operator] or a [Console] is.
func StatusOf(err error) int {
	var state interface{ SQLState() string } // of PostgreSQL
	_, unknown := errors.AsType[*UnknownRoute](err)
	_, _, away := assembly.ConnectionProblem(err)
	switch {
	case unknown, errors.Is(err, adapters.ErrNoOperation):
		return http.StatusNotFound
	case errors.Is(err, ErrPlace):
		return http.StatusUnprocessableEntity
	case errors.Is(err, ErrNoGroups):
		return http.StatusConflict
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
	lanes, err := op.cursors(ctx)
	return slices.ContainsFunc(lanes, func(l adapters.LaneStatus) bool { return l.Route == route }), err
}
