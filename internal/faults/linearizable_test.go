package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/internal/testenv"
)

// order is a command, or a look at what seeks have left.
type order struct {
	what string // pause, resume, redrive, skip, purge, seek, look
	on   string // a route, or a message of the paused route "held"
	to   int64  // of a seek
}

// key is what an order is about: orders about different things do not affect each other.
func (o order) key() string {
	switch o.what {
	case "seek", "look":
		return "cursor of " + o.on
	}
	return o.on
}

// operatorsModel says how each thing answers orders, one after the other: a route is paused or not; a message is dead, retrying or gone; a
// cursor is where the last seek has put it.
var operatorsModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[string]int{}
		for _, h := range history {
			k := h.Input.(order).key()
			if _, known := by[k]; !known {
				by[k] = len(parts)
				parts = append(parts, nil)
			}
			parts[by[k]] = append(parts[by[k]], h)
		}
		return parts
	},
	Init: func() any { return any(nil) },
	Step: func(state, input, output any) (bool, any) {
		o, out := input.(order), output.(int64)
		changed := func(when bool, next any) (bool, any) {
			if !when {
				next = state
			}
			return (out == 1) == when, next
		}
		switch o.what {
		case "pause":
			return changed(state != true, true)
		case "resume":
			return changed(state == true, false)
		case "redrive": // nil: dead from the beginning
			return changed(state != "gone", "retrying")
		case "skip":
			return changed(state == "retrying", "gone")
		case "purge":
			return changed(state == nil, "gone")
		case "seek":
			return true, o.to
		default:
			return state == nil || out == state, state
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " -> ", output) },
}

// faces are the ways by which operators give orders.
type faces struct {
	t     *testing.T
	db    *database
	relay *relay
	admin string
	op    *operate.Operator
}

// Orders that operators give at once from the command line, by the API and in Go take effect one after the other, each between its call and its
// answer, and each answer is right.
func TestOperatorsAreLinearizable(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	to := receive(t, func(*http.Request, []payload) int { return http.StatusBadRequest })
	text := settings{database: db.url, top: []string{"admin: {listen: 127.0.0.1:0, anonymous: admin}", "settle_interval: 20ms"}, destination: toHTTP(to.url()), middleware: "[poison, retry]", routes: 3}.text()
	f := &faces{t: t, db: db, relay: start(t, text)}
	f.admin = f.relay.admin()
	const messages = 12
	db.fill(batch{n: messages, groups: messages})
	until(t, "all messages are dead", func() bool { return db.parked("status = 'dead'") == 3*messages })
	for _, route := range []string{"orders0", "orders2"} { // then nothing but orders changes its messages, and its cursors
		f.relay.outrider("pause", route)
	}
	cfg, err := config.Load(f.relay.config, os.LookupEnv)
	must(t, err)
	f.op, err = operate.Connect(t.Context(), assembly.NewBuilder(cfg, assembly.OptionsOf(nil)))
	must(t, err)
	t.Cleanup(func() { must(t, f.op.Close()) })
	ids := db.rows()
	var mu sync.Mutex
	var history []porcupine.Operation
	var clients sync.WaitGroup
	began := time.Now()
	for client := range 6 {
		clients.Go(func() {
			for range testenv.Brief(20, 60) {
				o := order{what: []string{"pause", "resume", "redrive", "skip", "purge", "seek", "look"}[rand.IntN(7)], on: "orders1"}
				switch o.what {
				case "redrive", "skip", "purge":
					o.on = ids[rand.IntN(len(ids))].ID
				case "seek", "look":
					o.on, o.to = "orders2", 1+rand.Int64N(messages)
				}
				call := time.Since(began)
				out := f.give(client%3, o)
				done := porcupine.Operation{ClientId: client, Input: o, Output: out, Call: int64(call), Return: int64(time.Since(began))}
				mu.Lock()
				history = append(history, done)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	if result := porcupine.CheckOperationsTimeout(operatorsModel, history, time.Minute); result != porcupine.Ok {
		for _, part := range operatorsModel.Partition(history) {
			if !porcupine.CheckOperations(operatorsModel, part) {
				t.Errorf("no order of these explains the answers:\n%s", describe(part))
			}
		}
		t.Errorf("porcupine says %v", result)
	}
	spoilt := append([]porcupine.Operation(nil), history...)
	last := int64(time.Since(began))
	spoilt = append(spoilt, porcupine.Operation{Input: order{"pause", "orders1", 0}, Output: int64(1), Call: last + 1, Return: last + 2},
		porcupine.Operation{Input: order{"pause", "orders1", 0}, Output: int64(1), Call: last + 3, Return: last + 4})
	if porcupine.CheckOperations(operatorsModel, spoilt) {
		t.Error("two pauses of one route, both of which changed something, are explained")
	}
	t.Logf("%d orders", len(history))
}

func describe(part []porcupine.Operation) string {
	var b strings.Builder
	for _, h := range part {
		fmt.Fprintf(&b, "%8.1f to %8.1f ms, client %d: %s\n", float64(h.Call)/1e6, float64(h.Return)/1e6, h.ClientId, operatorsModel.DescribeOperation(h.Input, h.Output))
	}
	return b.String()
}

// give gives an order by the face, and returns how much it has changed, or what a look sees.
func (f *faces) give(face int, o order) int64 {
	switch {
	case o.what == "look":
		var position int64
		if err := f.db.pool.QueryRow(f.t.Context(), `SELECT 1 + count(*) FILTER (WHERE o.position <= c.position OR o.position = ANY (c.beyond))
    FROM outrider_outbox o JOIN outrider_cursor c ON c.slot = o.slot AND c.route = $1`, o.on).Scan(&position); err != nil {
			f.t.Error(err)
		}
		return position
	case face == 0:
		return f.byCommand(o)
	case face == 1:
		return f.byAPI(o)
	}
	return f.inGo(o)
}

// changes is what answers in JSON have in common.
type changes struct {
	Changed json.RawMessage `json:"changed"`
}

func (f *faces) changed(answer []byte) int64 {
	var c changes
	if err := json.Unmarshal(answer, &c); err != nil {
		f.t.Errorf("%v: %s", err, answer)
	}
	switch string(c.Changed) {
	case "true", "1":
		return 1
	}
	return 0
}

func (f *faces) byCommand(o order) int64 {
	args := []string{"parked", o.what, o.on, "--route", "orders0"}
	switch o.what {
	case "pause":
		args = []string{"pause", o.on, "--wait", "0s"}
	case "resume":
		args = []string{"resume", o.on}
	case "seek":
		args = []string{"seek", o.on, "--to", strconv.FormatInt(o.to, 10), "--yes"}
	}
	cmd := exec.CommandContext(f.t.Context(), program(f.t), append(args, "-o", "json", "-c", f.relay.config)...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil && !strings.Contains(problem.String(), "no parked message") {
		f.t.Errorf("%v: %v: %s%s", args, err, out, problem.String())
	}
	if len(out) == 0 {
		return 0
	}
	return f.changed(out)
}

func (f *faces) byAPI(o order) int64 {
	path, body := "/parked/"+o.what, map[string]any{"id": o.on, "route": "orders0"}
	switch o.what {
	case "pause", "resume":
		path, body = "/routes/"+o.on+"/"+o.what, map[string]any{}
	case "seek":
		path, body = "/routes/"+o.on+"/seek", map[string]any{"to": strconv.FormatInt(o.to, 10)}
	}
	text, err := json.Marshal(body)
	if err != nil {
		f.t.Error(err)
	}
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.admin+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		f.t.Error(err)
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Error(err)
		return 0
	}
	var answer bytes.Buffer
	_, err = answer.ReadFrom(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		f.t.Errorf("%s %s: %d %v: %s", path, text, resp.StatusCode, err, answer.String())
	}
	return f.changed(answer.Bytes())
}

func (f *faces) inGo(o order) int64 {
	ctx, n, changed := context.Background(), 0, false
	var err error
	switch o.what {
	case "pause":
		changed, err = f.op.Pause(ctx, adapters.Pause{Route: o.on, By: "test"})
	case "resume":
		changed, err = f.op.Resume(ctx, adapters.Pause{Route: o.on, By: "test"})
	case "seek":
		var plan *operate.Relocation
		if plan, err = f.op.PlanSeek(ctx, o.on, operate.Target{Position: o.to}); err == nil {
			err = f.op.Relocate(ctx, plan, "test")
		}
	default:
		n, err = f.op.ChangeParked(ctx, adapters.ParkedCommand{Action: adapters.ParkedAction(o.what), Filter: adapters.ParkedFilter{ID: o.on, Route: "orders0"}, By: "test"}, operate.RateLimit{})
	}
	if err != nil {
		f.t.Errorf("%v in Go: %v", o, err)
	}
	if changed {
		n = 1
	}
	return int64(n)
}
