package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/internal/lanectx"

	"github.com/ThreeDotsLabs/watermill/message"
	stock "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// within runs f with the context that Timeout gives to a handler.
func within(parent context.Context, limit time.Duration, f func(ctx context.Context)) {
	_, _ = middleware.Timeout{Limit: limit}.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		f(msg.Context())
		return nil, nil
	})(newMessage(parent))
}

func TestTimeoutEndsTheAttempt(t *testing.T) {
	t.Parallel()
	for _, parent := range []context.Context{context.Background(), onLane(1)} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			h := middleware.Timeout{Limit: time.Second}.Middleware(
				func(msg *message.Message) ([]*message.Message, error) {
					<-msg.Context().Done()
					return nil, fmt.Errorf("send: %w", msg.Context().Err())
				})
			_, err := h(newMessage(parent))
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("error %v after %v, want the deadline after 1s", err, time.Since(start))
			}
			wantVerdict(t, err, outbox.OutcomeRetry)
		})
	}
}

// A handler may look at Err between two steps and never ask for Done.
func TestTimeoutIsSeenByWhoOnlyPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		within(t.Context(), time.Second, func(ctx context.Context) {
			<-time.After(time.Second - 1)
			if err := ctx.Err(); err != nil {
				t.Errorf("ended before the deadline: %v", err)
			}
			<-time.After(1)
			if err := ctx.Err(); err != context.DeadlineExceeded {
				t.Errorf("error %v at the deadline", err)
			}
		})
	})
}

func TestTimeoutGivesTheContextBack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	msg := newMessage(ctx)
	h := stock.Recoverer(middleware.Timeout{}.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		msg.SetContext(context.WithValue(msg.Context(), "key", "value")) //nolint:revive,staticcheck // any key will do
		return explode(msg)
	}))
	if _, err := h(msg); err == nil {
		t.Error("the panic is gone")
	}
	if msg.Context() != ctx {
		t.Error("the message has another context than it came with")
	}
}

func TestTimeoutTellsLanesTheLimit(t *testing.T) {
	t.Parallel()
	limitOf := func(limits ...time.Duration) (got time.Duration, ok bool) {
		h := func(msg *message.Message) ([]*message.Message, error) {
			got, ok = lanectx.LimitOf(context.WithoutCancel(msg.Context()))
			return nil, nil
		}
		for _, limit := range limits {
			h = middleware.Timeout{Limit: limit}.Middleware(h)
		}
		_, _ = h(newMessage(onLane(1)))
		return got, ok
	}
	if limit, ok := limitOf(); ok {
		t.Errorf("limit %v without a timeout", limit)
	}
	for _, limits := range [][]time.Duration{
		{time.Second}, {time.Second, time.Minute}, {time.Minute, time.Second}, {time.Hour, time.Second, time.Minute},
	} {
		if limit, ok := limitOf(limits...); !ok || limit != time.Second {
			t.Errorf("timeouts %v: limit %v, %v, want 1s", limits, limit, ok)
		}
	}
	if limit, _ := limitOf(0); limit != 30*time.Second {
		t.Errorf("default limit %v, want 30s", limit)
	}
	if limit, _ := limitOf(-1); limit != 30*time.Second {
		t.Errorf("limit %v in place of a negative one, want 30s", limit)
	}
}

func TestTimeoutContextKeepsTheAttempt(t *testing.T) {
	t.Parallel()
	within(onLane(7), time.Minute, func(ctx context.Context) {
		for range 2 { // not armed, then armed
			if a, ok := outbox.AttemptOf(ctx); !ok || a.Number != 7 {
				t.Errorf("attempt %+v, %v, want number 7", a, ok)
			}
			_ = ctx.Done()
		}
	})
}

// quietContext is a context such as a lane's own.
type quietContext struct{ context.Context }

func (quietContext) Quiet() bool { return true }

func TestTimeoutIsQuietOnLanesOnly(t *testing.T) {
	t.Parallel()
	nested := func(parent context.Context) (quiet bool) {
		within(parent, time.Second, func(ctx context.Context) {
			within(ctx, time.Minute, func(ctx context.Context) { quiet = lanectx.IsQuiet(ctx) })
		})
		return quiet
	}
	if !nested(quietContext{t.Context()}) {
		t.Error("a lane would arm a timer for each message that waits")
	}
	if nested(t.Context()) {
		t.Error("a lane would miss the end of a context that it does not know")
	}
}

// A context that nobody waits on costs one allocation; a timer is at least two more.
func TestTimeoutIsLazy(t *testing.T) {
	// Not parallel: AllocsPerRun counts the whole process.
	h := middleware.Timeout{Limit: time.Minute}.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context()
		_, _ = ctx.Deadline()
		_, _ = lanectx.LimitOf(ctx)
		return nil, ctx.Err()
	})
	msg := newMessage(onLane(1))
	if n := testing.AllocsPerRun(1000, func() { _, _ = h(msg) }); n != 1 {
		t.Errorf("%v allocations per message, want 1", n)
	}
}

// Contexts derived from a foreign context cost a goroutine each, unless it is
// recognised by package context.
func TestTimeoutDerivedContextsStartNoGoroutine(t *testing.T) {
	// Not parallel: it counts goroutines.
	within(t.Context(), time.Minute, func(ctx context.Context) {
		before := runtime.NumGoroutine()
		for range 100 {
			derived, cancel := context.WithTimeout(ctx, time.Second)
			t.Cleanup(cancel)
			stop := context.AfterFunc(derived, func() {})
			t.Cleanup(func() { stop() })
		}
		if n := runtime.NumGoroutine() - before; n >= 100 {
			t.Errorf("%d goroutines more", n)
		}
	})
}

func TestTimeoutContextPassesTheCauseOn(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancelCause(t.Context())
	within(parent, time.Minute, func(ctx context.Context) {
		derived, stop := context.WithCancel(ctx)
		defer stop()
		cancel(errBoom)
		if got := context.Cause(derived); got != errBoom { //nolint:errorlint // identity is the point
			t.Errorf("cause of the derived context: %v", got)
		}
		if got := context.Cause(ctx); got != errBoom { //nolint:errorlint // identity is the point
			t.Errorf("cause: %v", got)
		}
	})
}

func TestTimeoutContextUsedConcurrently(t *testing.T) {
	t.Parallel()
	for range 200 {
		var wg sync.WaitGroup
		within(t.Context(), time.Minute, func(ctx context.Context) {
			for range 4 {
				wg.Go(func() {
					_, _ = outbox.AttemptOf(ctx)
					if err := ctx.Err(); err != nil && err != context.Canceled {
						t.Errorf("ended with %v", err)
					}
					derived, cancel := context.WithCancel(ctx)
					defer cancel()
					<-derived.Done() // the handler returns meanwhile
					if ctx.Err() == nil {
						t.Error("a derived context has ended and this one has not")
					}
				})
			}
		})
		wg.Wait()
	}
}

// The lazy context and context.WithTimeout are asked the same questions at the
// same times and must answer alike.
func TestTimeoutContextBehavesLikeTheStandardOne(t *testing.T) {
	t.Parallel()
	steps := []string{"err", "done", "derive", "cause", "wait", "wait", "cancel parent", "return"}
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(rapid.SampledFrom(steps), 1, 12).Draw(rt, "script")
		parentLimit := time.Duration(rapid.IntRange(1, 8).Draw(rt, "parent limit")) * time.Second
		var lazy, standard []string
		synctest.Test(t, func(*testing.T) {
			lazy = play(script, parentLimit, func(parent context.Context) (context.Context, func()) {
				given, back, ended := make(chan context.Context), make(chan struct{}), make(chan struct{})
				go func() {
					defer close(ended)
					within(parent, 4*time.Second, func(ctx context.Context) {
						given <- ctx
						<-back
					})
				}()
				return <-given, sync.OnceFunc(func() { close(back); <-ended })
			})
		})
		synctest.Test(t, func(*testing.T) {
			standard = play(script, parentLimit, func(parent context.Context) (context.Context, func()) {
				return context.WithTimeout(parent, 4*time.Second)
			})
		})
		if got, want := fmt.Sprint(lazy), fmt.Sprint(standard); got != want {
			rt.Fatalf("answers %s, want %s", got, want)
		}
	})
}

// play runs the script against a context and returns what it answered.
func play(
	script []string, parentLimit time.Duration, start func(context.Context) (context.Context, func()),
) (answers []string) {
	root, cancelRoot := context.WithCancelCause(context.Background())
	defer cancelRoot(nil)
	parent, cancelParent := context.WithTimeout(root, parentLimit)
	defer cancelParent()
	ctx, end := start(parent)
	var atEnd []func()
	defer func() {
		end()
		for _, f := range atEnd {
			f()
		}
	}()
	deadline, ok := ctx.Deadline()
	answers = append(answers, fmt.Sprint(time.Until(deadline), ok))
	answer := func(name string, ctx context.Context) {
		synctest.Wait()
		closed := false
		select {
		case <-ctx.Done():
			closed = true
		default:
		}
		answers = append(answers, fmt.Sprint(name, closed, ctx.Err(), context.Cause(ctx)))
	}
	for _, step := range script {
		switch step {
		case "err":
			answers = append(answers, fmt.Sprint(ctx.Err()))
		case "cause":
			answers = append(answers, fmt.Sprint(context.Cause(ctx)))
		case "done":
			answer("done", ctx)
		case "derive":
			derived, cancel := context.WithTimeout(ctx, time.Hour)
			atEnd = append(atEnd, func() { answer("derived", derived) }, cancel)
			answer("derived", derived)
		case "wait":
			<-time.After(1500 * time.Millisecond)
			synctest.Wait()
		case "cancel parent":
			if !time.Now().Before(deadline) { // Ask first: of two ends that nobody saw it does not know the earlier one.
				answers = append(answers, fmt.Sprint(ctx.Err()))
			}
			cancelRoot(errBoom)
		case "return":
			// Ask first: who never asked is told that the handler returned.
			answers = append(answers, fmt.Sprint(ctx.Err()))
			end()
		}
	}
	answer("last", ctx)
	return answers
}

func TestTimeoutInRouter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		done := make(chan struct{})
		b := startRouter(t, func(msg *message.Message) ([]*message.Message, error) {
			calls++
			if calls == 1 {
				<-msg.Context().Done()
				return nil, msg.Context().Err()
			}
			close(done)
			return nil, nil
		}, middleware.Timeout{Limit: time.Minute}.Middleware)
		defer b.stop()
		b.publish(newMessage(t.Context()))
		<-done
		if calls != 2 || time.Since(start) != time.Minute {
			t.Errorf("%d attempts in %v, want 2 in 1m", calls, time.Since(start))
		}
	})
}

func TestTimeoutValidate(t *testing.T) {
	t.Parallel()
	wantInvalid(t, middleware.Timeout{}.Validate(), "")
	wantInvalid(t, middleware.Timeout{Limit: -time.Second}.Validate(),
		"timeout: limit is -1s: give a duration above 0")
}

// What a message costs: with a handler that returns at once, and with one that
// waits on the context, as a destination that blocks would.
func BenchmarkTimeout(b *testing.B) {
	for name, mw := range map[string]message.HandlerMiddleware{
		"lazy":  middleware.Timeout{Limit: time.Minute}.Middleware,
		"stock": stock.Timeout(time.Minute),
	} {
		for what, h := range map[string]message.HandlerFunc{
			"unused": func(*message.Message) ([]*message.Message, error) { return nil, nil },
			"done": func(msg *message.Message) ([]*message.Message, error) {
				_ = msg.Context().Done()
				return nil, nil
			},
		} {
			b.Run(name+"/"+what, func(b *testing.B) {
				h, ctx := mw(h), onLane(1)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					msg := newMessage(ctx)
					for pb.Next() {
						msg.SetContext(ctx) // stock leaves its own
						_, _ = h(msg)
					}
				})
			})
		}
	}
}
