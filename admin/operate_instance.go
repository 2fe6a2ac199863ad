package admin

import (
	"context"
	"errors"
)

// RemoveInstance takes all lanes away from an instance and deletes its registration, so that others take the lanes. It
// returns false if there is no such instance. One that runs joins again.
func (op *Operator) RemoveInstance(ctx context.Context, id, by string) (removed bool, err error) {
	for _, s := range op.stores {
		here, failed := s.RemoveInstance(ctx, id, by)
		removed, err = removed || here, errors.Join(err, failed)
	}
	return removed, err
}
