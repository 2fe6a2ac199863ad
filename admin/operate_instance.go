package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
)

// RemoveInstance takes all lanes away from an instance and deletes its registration, so that others take the lanes. It
// returns false if there is no such instance. One that runs joins again.
func (op *Operator) RemoveInstance(ctx context.Context, id, by string) (removed bool, err error) {
	for _, s := range op.stores {
		remover, ok := s.(adapters.InstanceRemover)
		if !ok {
			err = errors.Join(err, fmt.Errorf("a state store of type %T removes no instances", s))
			continue
		}
		here, failed := remover.RemoveInstance(ctx, id, by)
		removed, err = removed || here, errors.Join(err, failed)
	}
	return removed, err
}
