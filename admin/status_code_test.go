package admin

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// What nobody has foreseen is the server's fault; what the state of a route forbids is a conflict.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{errors.New("invalid page in block 7"), http.StatusInternalServerError},
		{refused("position %d is beyond the last one", 7), http.StatusConflict},
		{adapters.NoStart("no column says when a row was created"), http.StatusConflict},
		{adapters.ErrAmbiguousID, http.StatusConflict},
		{mistake{errors.New("no pattern")}, http.StatusUnprocessableEntity},
		{&UnknownRoute{Route: "none"}, http.StatusNotFound},
		{&unknownSource{name: "none"}, http.StatusNotFound},
		{ErrUnavailable, http.StatusServiceUnavailable},
	} {
		if got := StatusOf(fmt.Errorf("route %q: %w", "orders", tt.err)); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}
