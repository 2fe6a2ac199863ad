package peers

import (
	"context"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// itemClaimer is a connection to FlowCatalyst's table, with the statements of its
// document.
type itemClaimer interface {
	// claim returns items that are now PROCESSING, as requests.
	claim(ctx context.Context) ([]*part, error)

	// complete marks items as COMPLETED.
	complete(ctx context.Context, ids []string) error

	close()
}

// part is the items of one request.
type part struct {
	ids  []string
	body []byte
}

// parting divides items into requests of at most [ItemRequest] items of one group.
type parting struct {
	all  []*part
	open map[string]*part // by group
}

// add copies its arguments.
func (p *parting) add(id, group, payload []byte) {
	if p.open == nil {
		p.open = map[string]*part{}
	}
	to, separator := p.open[string(group)], byte(',')
	if to == nil || len(to.ids) == ItemRequest {
		to, separator = &part{ids: make([]string, 0, ItemRequest), body: make([]byte, 0, ItemRequest*(len(payload)+8))}, '['
		p.open[string(group)] = to
		p.all = append(p.all, to)
	}
	to.ids = append(to.ids, string(id))
	to.body = append(append(to.body, separator), payload...)
}

// waitingParts limits the parts that wait for a connection and those that wait to be
// completed. Together they are about as many as Outrider may have in memory.
const waitingParts = itemMemory / ItemRequest / 2

// moveItems claims, sends and completes items until ctx ends, with one connection
// for claims and one for what is completed.
func moveItems(ctx context.Context, url string, connect func(context.Context) (itemClaimer, error)) error {
	parts, answered := make(chan *part, waitingParts), make(chan *part, waitingParts)
	g, working := errgroup.WithContext(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(working, stop) // if nothing can be sent or completed, claim no more
	g.Go(func() error {
		defer close(parts)
		return claimItems(ctx, working.Done(), connect, parts)
	})
	g.Go(func() error {
		defer close(answered)
		return postItems(working, url, parts, answered)
	})
	g.Go(func() error { return completeItems(working, connect, answered) })
	return g.Wait()
}

// claimItems claims until ctx ends. It still passes on its last claim, unless sending
// or completing has failed.
func claimItems(ctx context.Context, failed <-chan struct{}, connect func(context.Context) (itemClaimer, error), parts chan<- *part) error {
	from, err := connect(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer from.close()
	for ctx.Err() == nil {
		claimed, err := from.claim(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		for _, p := range claimed {
			p.body = append(p.body, ']')
			select {
			case parts <- p:
			case <-failed:
				return nil
			}
		}
		if len(claimed) == 0 {
			pause(ctx)
		}
	}
	return nil
}

// postItems sends the parts on all connections.
func postItems(ctx context.Context, url string, parts <-chan *part, answered chan<- *part) error {
	client := newPoster(itemRequests)
	defer client.close()
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer benchmark"}, "User-Agent": {"bench"}}
	g, ctx := errgroup.WithContext(ctx)
	for range itemRequests {
		g.Go(func() error {
			for p := range parts {
				if err := client.post(ctx, url, header, p.body); err != nil {
					return err
				}
				select {
				case answered <- p:
				case <-ctx.Done():
					return nil // the settler has failed
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// completeItems completes all items that were answered since its last statement.
func completeItems(ctx context.Context, connect func(context.Context) (itemClaimer, error), answered <-chan *part) error {
	to, err := connect(ctx)
	if err != nil {
		return err
	}
	defer to.close()
	for p := range answered {
		ids := p.ids
		for n := len(answered); n > 0; n-- {
			ids = append(ids, (<-answered).ids...)
		}
		if err := to.complete(ctx, ids); err != nil {
			return err
		}
	}
	return nil
}
