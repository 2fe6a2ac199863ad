package system_test

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

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// hotChildEnv has the URL of the database in a process of this test that is the program to be killed.
const hotChildEnv = "OUTRIDER_TEST_HOT_CHILD"

// hotChild publishes by the hot path and writes what its listener gets to its output, until its input ends.
func hotChild(url string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cfg, err := hotConfig(url, "poll: {min: 5ms, max: 50ms}", "window: 64")
	if err != nil {
		return err
	}
	registry := listeners.New()
	listeners.Listen(registry, sold, func(ctx context.Context, n int) error {
		_, err := fmt.Printf("%s %d\n", groupOf(ctx), n)
		return err
	})
	relay, err := outrider.New(cfg, outrider.WithListeners("here", registry), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	hot, err := relay.HotPath("app")
	if err != nil {
		return err
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Hot: hot})
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	var writing sync.WaitGroup
	for range 4 {
		writing.Go(func() {
			for ctx.Err() == nil {
				if err := sell(ctx, pool, client, 1+rand.IntN(3), rand.IntN(10) == 0); err != nil && ctx.Err() == nil {
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
	writing.Wait()
	return err
}

// runHotChild runs the program until it has written so many lines, or has come to the failpoint that at names. kill false: it ends
// by itself.
func runHotChild(t *testing.T, url string, kill bool, lines int, at string, note func(group string, n int)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), hotChildEnv+"="+url)
	if at != "" {
		cmd.Env = append(cmd.Env, failpoint.Env+"="+at)
	}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var problem strings.Builder
	cmd.Stderr = &problem
	must(t, cmd.Start())
	for text := bufio.NewScanner(out); text.Scan(); {
		group, number, _ := strings.Cut(text.Text(), " ")
		n, err := strconv.Atoi(number)
		must(t, err)
		note(group, n)
		switch lines--; {
		case lines != 0:
		case kill:
			_ = cmd.Process.Kill() // it may have ended
		default:
			must(t, in.Close())
		}
	}
	if err := cmd.Wait(); err != nil && (!kill || !errors.As(err, new(*exec.ExitError)) || problem.Len() > 0) {
		t.Fatalf("the program ended with %v\n%s", err, problem.String())
	}
}

// A program that publishes by the hot path of Outrider's own table is killed again and again, between the commit and the read that follows
// it among others: every committed event arrives, first ones in the order of their group.
func TestG1_G2_KillsBetweenCommitAndHotRead(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	cfg, err := hotConfig(url, "poll: {max: 50ms}", "window: 64")
	must(t, err)
	pool := hotTables(t, cfg, url)
	s := &sales{got: map[string][]int{}}
	first := func(group string, n int) { // a kill may have a delivery repeated
		s.mu.Lock()
		known := slices.Contains(s.got[group], n)
		s.mu.Unlock()
		if !known {
			s.note(group, n)
		}
	}
	kills := testenv.Size(4, 50)
	for i := range kills {
		if i%2 == 0 {
			runHotChild(t, url, true, 1+rand.IntN(60), "", first)
		} else {
			runHotChild(t, url, true, 2000, fmt.Sprint(failpoint.Hot, ":", 1+rand.IntN(30)), first)
		}
	}
	runHotChild(t, url, false, 30, "", first)
	p := newHotProgram(t, cfg, func(ctx context.Context, n int) error {
		first(groupOf(ctx), n)
		return nil
	}).start()
	s.compare(t, pool, p.stop)
	t.Logf("%d kills, %d events", kills, s.count())
}
