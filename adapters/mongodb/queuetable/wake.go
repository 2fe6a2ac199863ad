package queuetable

import (
	"context"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/mongodb/internal/mdb"
)

// waker wakes a reader by change streams. They are open while the reader sleeps, and no longer: an awake reader
// finds documents anyway, and the server spares itself to send each of them.
type waker struct {
	q     *Queue
	wakes chan struct{}

	mu       sync.Mutex
	watching *watch // that is open; nil: none is
	done     sync.WaitGroup
	closed   bool
	failed   time.Time // when no streams could be opened
}

// watch are the change streams of the queue's collections with what ends them. Each collection has its own: a stream of
// the whole database needs the right to read all of its collections.
type watch struct {
	streams []*mongo.ChangeStream
	ctx     context.Context
	cancel  context.CancelFunc
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

// Sleep implements [adapters.Waker]: it opens change streams of documents that are inserted.
func (q *Queue) Sleep(ctx context.Context) adapters.Sleep {
	if q.waker == nil {
		return adapters.Unsupported
	}
	return q.waker.sleep(ctx)
}

// Follows implements [adapters.Waker].
func (q *Queue) Follows() bool { return false }

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
	case w.watching != nil:
		return adapters.Armed
	}
	select {
	case <-w.wakes: // of the sleep before
	default:
	}
	s, err := w.open(ctx)
	if err != nil {
		w.failed = time.Now()
		w.q.log.WarnContext(ctx, "no change stream can be opened, so new documents are found by polling", "error", mdb.Plainly(err))
		return adapters.Unsupported
	}
	w.watching = s
	for _, stream := range s.streams {
		w.done.Go(func() { w.listen(s, stream) })
	}
	return adapters.Armed
}

// open opens the streams.
func (w *waker) open(ctx context.Context) (*watch, error) {
	s := &watch{}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	limit := time.AfterFunc(mdb.ConnectLimit, s.cancel)
	err := s.open(w.q.tables)
	if err == nil && !limit.Stop() {
		err = context.DeadlineExceeded
	}
	if err != nil {
		s.cancel()
		for _, stream := range s.streams {
			closeStream(stream)
		}
		return nil, err
	}
	return s, nil
}

func (w *watch) open(tables []*table) error {
	match := bson.D{{Key: "operationType", Value: in([]string{"insert", "replace"})}}
	pipeline := mongo.Pipeline{{{Key: "$match", Value: match}}, {{Key: "$project", Value: bson.D{{Key: "_id", Value: 1}}}}}
	for _, t := range tables {
		coll, err := t.collection(w.ctx)
		if err != nil {
			return err
		}
		stream, err := coll.Watch(w.ctx, pipeline, options.ChangeStream().SetMaxAwaitTime(time.Second))
		if err != nil {
			return err
		}
		w.streams = append(w.streams, stream)
	}
	return nil
}

// listen wakes the reader at the first event of a stream, and when there will be none any more. That ends the other streams.
func (w *waker) listen(s *watch, stream *mongo.ChangeStream) {
	stream.Next(s.ctx)
	s.cancel()
	w.mu.Lock()
	if w.watching == s {
		w.watching = nil
		select {
		case w.wakes <- struct{}{}:
		default:
		}
	}
	w.mu.Unlock()
	closeStream(stream)
}

// closeStream has the server forget a stream. One that cannot be told will forget it by itself.
func closeStream(stream *mongo.ChangeStream) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = stream.Close(ctx) // the reader polls now
}

func (w *waker) awake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watching != nil {
		w.watching.cancel()
		w.watching = nil
	}
}

func (w *waker) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.awake()
	w.done.Wait()
}
