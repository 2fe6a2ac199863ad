package server

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
)

// What nobody has foreseen is the server's fault; what the state of a route forbids is a conflict.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{errors.New("invalid page in block 7"), http.StatusInternalServerError},
		{operate.Refusal{Err: errors.New("position 7 is beyond the last one")}, http.StatusConflict},
		{adapters.NoStart("no column says when a row was created"), http.StatusConflict},
		{adapters.ErrAmbiguousID, http.StatusConflict},
		{operate.Mistake{Err: errors.New("no pattern")}, http.StatusUnprocessableEntity},
		{&operate.UnknownRoute{Route: "none"}, http.StatusNotFound},
		{&operate.UnknownSource{Name: "none"}, http.StatusNotFound},
		{console.ErrUnavailable, http.StatusServiceUnavailable},
	} {
		if got := StatusOf(fmt.Errorf("route %q: %w", "orders", tt.err)); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}
