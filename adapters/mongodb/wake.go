package mongodb

import (
	"context"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
)

// waker wakes a reader by a change stream. The stream is open while the reader sleeps, and no longer: an awake reader
// finds documents anyway, and the server spares itself to send each of them.
type waker struct {
	q     *Queue
	wakes chan struct{}

	mu     sync.Mutex
	stream *stream // that is open; nil: none is
	done   sync.WaitGroup
	closed bool
	failed time.Time // when no stream could be opened
}

// stream is a change stream with what ends it.
type stream struct {
	*mongo.ChangeStream
	ctx    context.Context
	cancel context.CancelFunc
}

// streamPause is after how long another stream is tried where none could be opened.
const streamPause = 10 * time.Second

func newWaker(q *Queue) *waker { return &waker{q: q, wakes: make(chan struct{}, 1)} }

// Wake implements [adapters.Waker].
func (q *Queue) Wake() <-chan struct{} {
	if q.waker == nil {
		return nil
	}
	return q.waker.wakes
}

// Sleep implements [adapters.Waker]: it opens a change stream of documents that are inserted.
func (q *Queue) Sleep(ctx context.Context) adapters.Sleep {
	if q.waker == nil {
		return adapters.Unsupported
	}
	return q.waker.sleep(ctx)
}

// Awake implements [adapters.Waker].
func (q *Queue) Awake() {
	if q.waker != nil {
		q.waker.awake()
	}
}

func (w *waker) sleep(ctx context.Context) adapters.Sleep {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed || time.Since(w.failed) < streamPause:
		return adapters.Unsupported
	case w.stream != nil:
		return adapters.Armed
	}
	select {
	case <-w.wakes: // of the sleep before
	default:
	}
	s, err := w.open(ctx)
	if err != nil {
		w.failed = time.Now()
		w.q.log.WarnContext(ctx, "no change stream can be opened, so new documents are found by polling", "error", plainly(err))
		return adapters.Unsupported
	}
	w.stream = s
	w.done.Go(func() { w.listen(s) })
	return adapters.Armed
}

// open opens a stream of the queue's collections.
func (w *waker) open(ctx context.Context) (*stream, error) {
	db, err := w.q.server.database(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(w.q.tables))
	for i, t := range w.q.tables {
		names[i] = t.Name
	}
	match := bson.D{{Key: "ns.coll", Value: in(names)}, {Key: "operationType", Value: in([]string{"insert", "replace"})}}
	pipeline := mongo.Pipeline{{{Key: "$match", Value: match}}, {{Key: "$project", Value: bson.D{{Key: "_id", Value: 1}}}}}
	s := &stream{}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	limit := time.AfterFunc(connectLimit, s.cancel)
	s.ChangeStream, err = db.Watch(s.ctx, pipeline, options.ChangeStream().SetMaxAwaitTime(time.Second))
	if err == nil && !limit.Stop() {
		err = context.DeadlineExceeded
	}
	if err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

// listen wakes the reader at the first event, and when there will be none any more.
func (w *waker) listen(s *stream) {
	s.Next(s.ctx)
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Close(ctx) // the reader polls now
	w.mu.Lock()
	if w.stream == s {
		w.stream = nil
	}
	w.mu.Unlock()
	select {
	case w.wakes <- struct{}{}:
	default:
	}
}

func (w *waker) awake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stream != nil {
		w.stream.cancel()
		w.stream = nil
	}
}

func (w *waker) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.awake()
	w.done.Wait()
}
