package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

// firstMessages are written at once and awaited before the clock starts, so that
// the relay has its connections.
const firstMessages = 20

// uncounted returns the number of messages before those that count: the first ones,
// and one second at the entry's rate, because an idle relay reads seldom and the
// rate is to be measured. A peer that has to be warm gets five seconds: the messages
// that warmed it came in larger transactions.
func (st *stage) uncounted() int {
	second := min(st.rows, st.rate)
	if warms(st.peer) {
		return firstMessages + 5*second
	}
	return firstMessages + second
}

// written is a message that was or will be committed.
type written struct {
	id, group string
	payload   []byte
	at        time.Time // when COMMIT had returned
}

// measureDelay writes messages at the entry's rate and measures how long each
// took from its commit to the receiver.
func (b *bench) measureDelay(ctx context.Context, st *stage) (s sample, err error) {
	lead := st.uncounted()
	messages, err := st.compose(lead + st.rows)
	if err != nil {
		return s, err
	}
	var elapsed time.Duration
	used, err := b.relayed(ctx, st, func(p *process, to measure.Receiver) (err error) {
		elapsed, err = b.write(ctx, st, p, to, messages)
		return err
	})
	if err != nil {
		return s, err
	}
	s = newSample(lead+st.rows, elapsed, used)
	s.p50, s.p99 = percentiles(messages[lead:], st.check.Times[lead:])
	s.curves = []curve{distribution(messages[lead:], st.check.Times[lead:])}
	return s, nil
}

// compose makes new messages and a new checker that expects them: messages of
// earlier runs must not arrive again.
func (st *stage) compose(n int) ([]written, error) {
	ids, err := outbox.NewTSIDs(-1)
	if err != nil {
		return nil, err
	}
	st.check = measure.NewChecker()
	source := measure.NewEvents(st.written, st.groups, st.payload)
	messages := make([]written, n)
	for i := range messages {
		m := &messages[i]
		st.written++
		m.group, m.payload = source.Event(st.written)
		if m.id, err = ids.Next(); err != nil {
			return nil, err
		}
		if err := st.check.Expect([]byte(m.group), m.payload); err != nil {
			return nil, err
		}
	}
	st.check.Reset()
	return messages, nil
}

// write commits each message in a transaction and returns the time until all had
// arrived. It commits at random moments within equal intervals: a fixed interval
// could coincide with the relay's own.
func (b *bench) write(ctx context.Context, st *stage, p *process, to measure.Receiver, messages []written) (time.Duration, error) {
	insert := st.publish
	begin := time.Now()
	for i := range messages[:firstMessages] {
		if err := messages[i].commit(ctx, st.db, insert); err != nil {
			return 0, err
		}
	}
	if _, err := b.watch(ctx, p, to, firstMessages); err != nil {
		return 0, err
	}
	interval, beat := time.Second/time.Duration(st.rate), time.Now()
	for i := firstMessages; i < len(messages); i++ {
		if err := measure.Until(ctx, beat.Add(rand.N(interval))); err != nil { //nolint:gosec // no secret
			return 0, err
		}
		if err := messages[i].commit(ctx, st.db, insert); err != nil {
			return 0, err
		}
		beat = beat.Add(interval)
	}
	last, err := b.watch(ctx, p, to, len(messages))
	return last.Sub(begin), err
}

// commit writes the message in a transaction of its own.
func (m *written) commit(ctx context.Context, db *pgx.Conn, insert string) error {
	_, err := db.Exec(ctx, insert, m.id, m.group, string(m.payload))
	m.at = time.Now()
	return err
}

// percentiles returns the median and the 99th percentile of the delays.
func percentiles(messages []written, arrived []time.Time) (p50, p99 time.Duration) {
	delays := make([]time.Duration, len(messages))
	for i := range messages {
		delays[i] = arrived[i].Sub(messages[i].at)
	}
	slices.Sort(delays)
	return delays[len(delays)/2], delays[len(delays)*99/100]
}

// distribution returns the percentage of messages that had arrived, by milliseconds.
func distribution(messages []written, arrived []time.Time) (c curve) {
	delays := make([]time.Duration, len(messages))
	for i := range messages {
		delays[i] = arrived[i].Sub(messages[i].at)
	}
	slices.Sort(delays)
	const steps = 200
	for i := 1; i < steps; i++ {
		c.Points = append(c.Points, point{milliseconds(delays[i*len(delays)/steps]), 100 * float64(i) / steps})
	}
	return c
}
