package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/internal/assembly"
)

// UnknownRoute is the error for a route that neither the configuration nor the
// state knows.
type UnknownRoute struct {
	Route string
	Known []string // those of the configuration; optional
}

// Error names the route and those that exist.
func (e *UnknownRoute) Error() string {
	text := fmt.Sprintf("there is no route %q", e.Route)
	if len(e.Known) > 0 {
		text += ": the configuration has " + strings.Join(e.Known, ", ")
	}
	return text
}

// UnknownSource is the error for a name that is neither a route's nor a source's.
type UnknownSource struct {
	Name  string
	Known []string // sources
}

// Error names the source and those that exist.
func (e *UnknownSource) Error() string {
	return fmt.Sprintf("there is no route and no source %q; the configuration has the sources %v", e.Name, e.Known)
}

// UnknownDestination is the error for a name that no destination has.
type UnknownDestination struct {
	Name    string
	Partial bool // some could not be read
	Known   []string
}

// Error names the destination and those that exist.
func (e *UnknownDestination) Error() string {
	if e.Partial {
		return fmt.Sprintf("there is no destination %q that can be read here: `outrider validate` names what is missing, such as a secret", e.Name)
	}
	return fmt.Sprintf("there is no destination %q: the configuration has %s", e.Name, strings.Join(e.Known, ", "))
}

// ErrNoGroups is why a group of a route cannot be paused.
var ErrNoGroups = errors.New("it has no groups: pause the route, or an address of it")

// ErrNeverRan is the error of [Operator.Lag] for a route without a settled cursor.
var ErrNeverRan = errors.New("the route has never run")

// ErrPageToken means that a place is none of a list: it is of another filter, or was written by hand.
var ErrPageToken = errors.New("it is no place in this list: take the next of a page")

// Refusal is the error of a change that the state of its route, or the kind of its source, does not allow.
type Refusal struct{ Err error }

// Error is that of the cause.
func (r Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r Refusal) Unwrap() error { return r.Err }

// refused makes a [Refusal].
func refused(format string, args ...any) error { return Refusal{fmt.Errorf(format, args...)} }

// Mistake is the error of a request that asks for what there cannot be.
type Mistake struct{ Err error }

// Error is that of the cause.
func (m Mistake) Error() string { return m.Err.Error() }

// Unwrap returns the cause.
func (m Mistake) Unwrap() error { return m.Err }

// IsForbidden reports whether the database refused a statement for lack of privileges.
func IsForbidden(err error) bool {
	var state interface{ SQLState() string } // of PostgreSQL
	return errors.As(err, &state) && state.SQLState() == "42501"
}

// IsUnavailable reports whether a database did not answer, or not in time: the same may succeed later.
func IsUnavailable(err error) bool {
	if _, refused := errors.AsType[Refusal](err); refused {
		return false
	}
	_, _, unreachable := assembly.ConnectionProblem(err)
	return unreachable || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
