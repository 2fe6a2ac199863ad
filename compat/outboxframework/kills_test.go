package outboxframework_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// childEnv has the URL of the database in a process of this test that is the program to be killed.
const childEnv = "OUTRIDER_TEST_FRAMEWORK_CHILD"

func TestMain(m *testing.M) {
	url := os.Getenv(childEnv)
	if url == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := child(url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child publishes to a few aggregates by the hot path and writes what its listener gets to its output, until its input ends.
func child(url string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cfg, err := outboxframework.NewSettings().SetPollerInterval(20 * time.Millisecond).SetPollerSkipRecent(10 * time.Millisecond).Config(url)
	if err != nil {
		return err
	}
	registry := listeners.New()
	listeners.Listen(registry, outbox.Type[int]("SOLD"), func(ctx context.Context, n int) error {
		e, _ := listeners.EnvelopeOf(ctx)
		_, err := fmt.Printf("%s %d\n", e.AggregateID(), n)
		return err
	})
	relay, err := outrider.New(cfg, outrider.WithListeners(outboxframework.Destination, registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	hot, err := relay.HotPath(outboxframework.Source)
	if err != nil {
		return err
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Layout: "outbox-framework", Hot: hot})
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := sell(ctx, pool, client); err != nil && ctx.Err() == nil {
					panic(err)
				}
			}
		})
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	err = relay.Run(ctx)
	running.Wait()
	return err
}

// sell publishes the next event of an aggregate, whose row makes writers take turns.
func sell(ctx context.Context, pool *pgxpool.Pool, client *outbox.Client) error {
	aggregate := strconv.Itoa(rand.IntN(6))
	return outbox.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, "UPDATE shop SET sold = sold + 1 WHERE id = $1 RETURNING sold", aggregate).Scan(&n); err != nil {
			return err
		}
		e, err := outbox.New("SOLD").JSON(n).Aggregate("SHOP", aggregate).Build()
		if err != nil {
			return err
		}
		return client.Publish(ctx, nil, e)
	})
}

// A program that publishes by the hot path is killed again and again, between the commit and the delivery from memory among others: every
// committed event is delivered, first ones in the order of their aggregate, and ends DONE.
func TestG1_G2_KillsBetweenCommitAndHotDelivery(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	a := newApp(t, url, busy()) // makes the table, and delivers in the end what is left
	_, err := a.pool.Exec(t.Context(), "CREATE TABLE shop AS SELECT i::text AS id, 0 AS sold FROM generate_series(0, 5) i")
	must(t, err)
	got := map[string][]int{}
	var mu sync.Mutex
	note := func(aggregate string, n int) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(got[aggregate], n) {
			got[aggregate] = append(got[aggregate], n)
		}
	}
	listeners.Listen(a.registry, outbox.Type[int]("SOLD"), func(ctx context.Context, n int) error {
		e, _ := listeners.EnvelopeOf(ctx)
		note(e.AggregateID(), n)
		return nil
	})
	run := func(kill int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+url)
		if kill%2 == 1 {
			cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%s:%d", failpoint.Env, failpoint.Hot, 1+rand.IntN(30)))
		}
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		var problem strings.Builder
		cmd.Stderr = &problem
		must(t, cmd.Start())
		left := 1 + rand.IntN(60) // so many events are delivered before a kill
		if kill%2 == 1 {
			left = 2000 // unless it came to that step before
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			aggregate, number, _ := strings.Cut(lines.Text(), " ")
			n, err := strconv.Atoi(number)
			must(t, err)
			note(aggregate, n)
			switch left--; {
			case left != 0:
			case kill < 0:
				must(t, in.Close())
			default:
				_ = cmd.Process.Kill() // it may have ended
			}
		}
		if err := cmd.Wait(); err != nil && (kill < 0 || !errors.As(err, new(*exec.ExitError)) || problem.Len() > 0) {
			t.Fatalf("the program ended with %v\n%s", err, problem.String())
		}
	}
	kills := testenv.Size(4, 50)
	for kill := range kills {
		run(kill)
	}
	run(-1)
	a.start()
	for open := 1; open > 0; {
		must(t, a.pool.QueryRow(t.Context(), "SELECT count(*) FROM outbox_event WHERE status <> 1").Scan(&open))
	}
	a.stop()
	total := 0
	for aggregate, numbers := range got {
		total += len(numbers)
		var committed int
		must(t, a.pool.QueryRow(t.Context(), "SELECT count(*) FROM outbox_event WHERE aggregate_id = $1", aggregate).Scan(&committed))
		var want []int
		for i := range committed {
			want = append(want, i+1)
		}
		if !slices.Equal(numbers, want) {
			t.Errorf("aggregate %s: %s", aggregate, firstWrong(numbers, want))
		}
	}
	t.Logf("%d kills, %d events", kills, total)
}
