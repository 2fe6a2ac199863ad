package main

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

// parting makes requests of items as they come: of one group each, with at most
// [itemRequest] items.
type parting struct {
	all  []*part
	open map[string]*part // by group
}

// add copies what it is given.
func (p *parting) add(id, group, payload []byte) {
	if p.open == nil {
		p.open = map[string]*part{}
	}
	to, separator := p.open[string(group)], byte(',')
	if to == nil || len(to.ids) == itemRequest {
		to, separator = &part{ids: make([]string, 0, itemRequest), body: make([]byte, 0, itemRequest*(len(payload)+8))}, '['
		p.open[string(group)] = to
		p.all = append(p.all, to)
	}
	to.ids = append(to.ids, string(id))
	to.body = append(append(to.body, separator), payload...)
}

// The parts that wait for a connection, and those that wait to be settled,
// together about what Outrider may have in memory.
const waitingParts = itemMemory / itemRequest / 2

// moveItems claims, sends and completes items until ctx ends, with one connection
// for claims and one for what is completed.
func moveItems(ctx context.Context, url string, connect func(context.Context) (itemClaimer, error)) error {
	parts, answered := make(chan *part, waitingParts), make(chan *part, waitingParts)
	g, working := errgroup.WithContext(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(working, stop) // what cannot be sent or settled need not be claimed
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

// claimItems claims until ctx ends; what it has then is still handed on, unless the
// others have failed.
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

// postItems sends what comes, on all connections.
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

// completeItems writes all that was answered since the last time.
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
