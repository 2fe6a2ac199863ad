package peers

import (
	"context"
	_ "embed" // graphile.mjs
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv/provision"
)

// graphile is graphile-worker, a job queue in PostgreSQL for Node.js. Each of its jobs sends a webhook, and those of a group are in a
// queue of its own, so they are sent one after the other.
type graphile struct{}

// Graphile sends signed webhooks.
var Graphile = graphile{}

//go:embed graphile.mjs
var graphileProgram []byte

func (graphile) Name() string { return "graphile" }

func (graphile) About() string {
	return fmt.Sprintf("graphile-worker %s on Node.js: a job per message, one at a time per group (queue_name), that sends the same signed request; concurrency and maxPoolSize %d, "+
		"localQueue of %d jobs, completeJobBatchDelay 0", provision.GraphileVersion, HookRequests, HookRequests+1)
}

// Provide finds Node.js and graphile-worker, and downloads that if need be.
func (graphile) Provide(ctx context.Context, _ *measure.Servers, say func(format string, args ...any)) error {
	_, _, err := provision.Host{Install: true, Say: say}.Graphile(ctx)
	return err
}

func (g graphile) Create(ctx context.Context, db *pgx.Conn) error {
	if err := measure.KeepEvents(ctx, db); err != nil {
		return err
	}
	if err := g.program(ctx, measure.Job{Postgres: db.Config().ConnString()}, func(cmd *exec.Cmd) error { return cmd.Run() }); err != nil {
		return fmt.Errorf("make graphile-worker's tables: %w", err)
	}
	_, err := db.Exec(ctx, "DROP TABLE "+measure.EventTable)
	return err
}

// Rewind adds the jobs again: those that are done are deleted.
func (graphile) Rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "TRUNCATE graphile_worker._private_jobs, graphile_worker._private_job_queues")
	if err != nil {
		return err
	}
	err = measure.FillFrom(ctx, db, measure.ItemBacklog,
		"PERFORM graphile_worker.add_job('send', json_build_object('id', id, 'body', payload::text), queue_name => message_group)")
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, "VACUUM (ANALYZE)")
	return err
}

func (graphile) Backlog() string {
	return "SELECT message_group, payload::text FROM " + measure.ItemBacklog + " ORDER BY position"
}

func (g graphile) Relay(ctx context.Context, j measure.Job) error {
	_, err := g.WarmRelay(ctx, j, nil)
	return err
}

func (graphile) Warms() bool { return false }

// WarmRelay runs Node.js until ctx ends. Its clock starts with its process.
func (g graphile) WarmRelay(ctx context.Context, j measure.Job, _ func(pid int) error) (peak int64, err error) {
	err = g.program(context.WithoutCancel(ctx), j, func(cmd *exec.Cmd) error {
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-ctx.Done():
			peak = measure.PeakMemory(cmd.Process.Pid)
			_ = stdin.Close() // fails when the process is gone, which its status shows better
			return <-done
		case err := <-done:
			return err
		}
	})
	return peak, err
}

// program has a command that runs graphile.mjs.
func (graphile) program(ctx context.Context, j measure.Job, do func(*exec.Cmd) error) error {
	node, dir, err := provision.Host{}.Graphile(ctx)
	if err != nil {
		return err
	}
	own, err := os.MkdirTemp("", "outrider-graphile-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(own) }()
	file := filepath.Join(own, "graphile.mjs")
	if err := os.WriteFile(file, graphileProgram, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, node, file) //nolint:gosec // our own program
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "NODE_ENV=production", "DIR="+dir, "DATABASE="+j.Postgres, "SECRET="+measure.WebhookSecret, fmt.Sprint("JOBS=", HookRequests))
	if j.URL != "" {
		cmd.Env = append(cmd.Env, "URL="+j.URL+HookPath)
	}
	return do(cmd)
}
