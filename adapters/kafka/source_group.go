package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outriderhq/outrider/adapters"
)

// membership is the client that is a member of the group.
type membership struct {
	mu     sync.Mutex
	client *kgo.Client // nil: not joined
	owned  map[int32]bool
	of     int
	failed string // why it is out of the group; empty: it is not
}

// groupErrors logs why the client is out of its group: it has no partitions then, and nothing else says so.
type groupErrors struct{ source *Source }

// OnGroupManageError implements [kgo.HookGroupManageError].
func (h groupErrors) OnGroupManageError(err error) {
	g, text := &h.source.group, h.source.wrap(err).Error()
	g.mu.Lock()
	left, known := g.owned == nil, g.failed == text
	g.failed = text
	g.mu.Unlock()
	if !left && !known {
		h.source.cfg.Logger.Error("out of the consumer group, joining again", "group", h.source.cfg.Group, "error", text)
	}
}

// Join implements [adapters.PartitionedSource].
func (s *Source) Join(calls adapters.GroupCalls) error {
	g := &s.group
	change := func(gained, left []int32) {
		g.mu.Lock()
		if g.owned == nil { // it has left
			gained = nil
		}
		if len(gained) > 0 {
			g.failed = ""
		}
		for _, p := range gained {
			g.owned[p] = true
			g.of = max(g.of, int(p)+1)
			if int(p) >= s.lanes {
				s.cfg.Logger.Error("the topic has more partitions than the route has lanes; restart the relay to read the others", "topic", s.cfg.Topic, "partition", p, "lanes", s.lanes)
			}
		}
		for _, p := range left {
			delete(g.owned, p)
		}
		g.mu.Unlock()
		calls.Changed()
	}
	g.mu.Lock()
	g.owned = map[int32]bool{}
	g.mu.Unlock()
	topic := s.cfg.Topic
	cl, err := kgo.NewClient(append(slices.Clip(s.opts), kgo.ConsumerGroup(s.cfg.Group), kgo.ConsumeTopics(topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(), kgo.SessionTimeout(s.cfg.Session), kgo.HeartbeatInterval(min(s.cfg.Session/6, 3*time.Second)),
		kgo.RebalanceTimeout(s.cfg.Rebalance), kgo.WithHooks(groupErrors{s}), kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1), kgo.MaxConcurrentFetches(1),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, gained map[string][]int32) {
			cl.PauseFetchTopics(topic) // the other client reads
			change(gained[topic], nil)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, left map[string][]int32) {
			change(nil, left[topic])
			calls.Revoked(ints(left[topic]))
			s.reader.forget(left[topic])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, left map[string][]int32) {
			change(nil, left[topic])
			calls.Lost(ints(left[topic]))
			s.reader.forget(left[topic])
		}))...)
	if err != nil {
		return fmt.Errorf("kafka source: %w", err)
	}
	cl.PauseFetchTopics(topic)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.client = cl
	return nil
}

func ints(of []int32) []int {
	out := make([]int, len(of))
	for i, p := range of {
		out[i] = int(p)
	}
	return out
}

// Owned implements [adapters.PartitionedSource].
func (s *Source) Owned() (slots []int, of int) {
	g := &s.group
	g.mu.Lock()
	for p := range g.owned {
		slots = append(slots, int(p))
	}
	of = g.of
	g.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slots, max(of, len(s.bounds.end))
}

// Commit implements [adapters.PartitionedSource].
func (s *Source) Commit(ctx context.Context, settled map[int]int64) error {
	return s.wrap(s.group.commit(ctx, s.cfg.Topic, settled))
}

var errNotJoined = errors.New("not a member of the group")

// commit writes the offsets behind positions.
func (g *membership) commit(ctx context.Context, topic string, settled map[int]int64) error {
	g.mu.Lock()
	cl := g.client
	g.mu.Unlock()
	if cl == nil {
		return errNotJoined
	}
	offsets := map[int32]kgo.EpochOffset{}
	for slot, position := range settled {
		offsets[int32(slot)] = kgo.EpochOffset{Epoch: -1, Offset: position + 1}
	}
	var failed error
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				req.Topics[i].Partitions[j].Metadata = new(mark)
			}
		}
		return nil
	})
	cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			failed = err
			for i := 0; failed == nil && i < len(resp.Topics); i++ {
				for _, p := range resp.Topics[i].Partitions {
					failed = cmp.Or(failed, kerr.ErrorForCode(p.ErrorCode))
				}
			}
		})
	return failed
}

// Leave implements [adapters.PartitionedSource].
func (s *Source) Leave() {
	g := &s.group
	g.mu.Lock()
	cl := g.client
	g.client, g.owned = nil, nil
	g.mu.Unlock()
	if cl != nil {
		cl.Close()
	}
}
