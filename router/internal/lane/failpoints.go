package lane

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
)

// killable lets tests kill the process before and after its deliveries. Without
// a failpoint it costs nothing: the destination is used as it is.
func killable(d adapters.Destination) adapters.Destination {
	if at, _ := failpoint.Armed(); at == "" {
		return d
	}
	return trapped{d}
}

// trapped is a destination with a failpoint on both sides.
type trapped struct{ adapters.Destination }

func (t trapped) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	failpoint.Hit(failpoint.BeforeSend)
	errs := t.Destination.Deliver(ctx, address, batch)
	failpoint.Hit(failpoint.AfterSend)
	return errs
}
