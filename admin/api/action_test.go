package api

import (
	"cmp"
	"net/http"
	"testing"

	"github.com/outriderhq/outrider/admin/action"
)

// The API can order every action, by the role of the action, and changes nothing else.
func TestG12_EveryActionIsAnOperation(t *testing.T) {
	t.Parallel()
	operations := map[string]*operation{}
	changes := map[string]bool{}
	for _, op := range newService(nil).operations {
		operations[op.id] = op
		changes[op.id] = op.method != http.MethodGet
	}
	for _, a := range action.All {
		op := operations[cmp.Or(a.Order, a.Name)]
		switch {
		case op == nil:
			t.Errorf("no operation orders %s", a.Name)
		case a.Order == "" && op.role != a.Role:
			t.Errorf("%s needs the role %s in the API, %s on the dashboard", a.Name, op.role, a.Role)
		default:
			delete(changes, op.id)
		}
	}
	for id, does := range changes {
		if does {
			t.Errorf("the operation %s is no action", id)
		}
	}
}
