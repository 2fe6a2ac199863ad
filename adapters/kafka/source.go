package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outriderhq/outrider/adapters"
)

// SourceConfig configures a [Source]. Brokers, Topic and Group are required.
type SourceConfig struct {
	Brokers []string
	TLS     *tls.Config // nil: plain text
	SASL    *SASL       // nil: none

	Topic string
	Group string // consumer group

	Decoding

	// Session is the time without a heartbeat after which the group gives the partitions of a member to others. Default: 30 s.
	Session time.Duration

	// Rebalance bounds the hand-over of partitions: a member that takes longer is out of the group. Default: 60 s.
	Rebalance time.Duration

	Logger *slog.Logger // default: slog.Default()
}

// Defaults of [SourceConfig].
const (
	DefaultSession   = 30 * time.Second
	DefaultRebalance = 60 * time.Second
)

// mark is the metadata of commits, by which those of other programs are told apart.
const mark = "outrider"

// sourceTimeout bounds what the brokers are asked.
const sourceTimeout = 10 * time.Second

// Source reads a topic as a member of a consumer group. A slot is a partition and a position an offset.
//
// There are two clients: one is the member of the group and commits offsets, the other reads partitions from where the cursors of the lanes are.
// So an operator's command can read without taking part in the group, and an offset in the group never moves a lane.
type Source struct {
	cfg    SourceConfig
	opts   []kgo.Opt
	admin  *kadm.Client
	lanes  int
	reader *readAhead

	group membership

	mu     sync.Mutex
	bounds bounds          // of the partitions, as of a moment ago
	warned map[string]bool // what was logged once
}

var (
	_ adapters.PartitionedSource = (*Source)(nil)
	_ adapters.OperatorSource    = (*Source)(nil)
	_ adapters.Waker             = (*Source)(nil)
)

// WithDefaults returns the configuration completed, or all that is wrong with it.
func (c SourceConfig) WithDefaults() (SourceConfig, error) {
	setDefault(&c.Session, DefaultSession)
	setDefault(&c.Rebalance, DefaultRebalance)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	errs := []error{c.Decoding.complete()}
	for name, empty := range map[string]bool{"brokers": len(c.Brokers) == 0, "topic": c.Topic == "", "group": c.Group == ""} {
		if empty {
			errs = append(errs, fmt.Errorf("%s: none given", name))
		}
	}
	return c, errors.Join(errs...)
}

// NewSource returns a source. It asks the brokers for the partitions of the topic.
func NewSource(ctx context.Context, cfg SourceConfig) (*Source, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("kafka source: %w", err)
	}
	s := &Source{cfg: cfg, warned: map[string]bool{}}
	if s.opts, err = cfg.options(); err != nil {
		return nil, fmt.Errorf("kafka source: %w", err)
	}
	cl, err := kgo.NewClient(s.opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka source: %w", err)
	}
	s.admin = kadm.NewClient(cl)
	topic, err := s.topic(ctx)
	if err != nil {
		cl.Close()
		return nil, err
	}
	s.lanes = min(len(topic.Partitions)+max(len(topic.Partitions), spareLanes), adapters.MaxLanes)
	s.reader = newReadAhead(s)
	return s, nil
}

// A route has as many lanes again as there are partitions, for those that are added while it runs.
const spareLanes = 16

func (c *SourceConfig) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID(clientID), kgo.DisableClientMetrics(), kgo.DialTimeout(longestDial),
		kgo.RetryTimeout(sourceTimeout), kgo.RetryBackoffFn(backoff), kgo.MetadataMinAge(metadataMinAge), kgo.MetadataMaxAge(metadataMaxAge),
		kgo.WithLogger(logger{c.Logger}),
	}
	if c.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(c.TLS))
	}
	if c.SASL == nil {
		return opts, nil
	}
	mechanism, err := c.SASL.mechanism()
	return append(opts, kgo.SASL(mechanism)), err
}

const (
	clientID = "outrider"

	// metadataMaxAge is after how long added partitions are noticed.
	metadataMaxAge = 30 * time.Second
)

// topic asks for the topic.
func (s *Source) topic(ctx context.Context) (kadm.TopicDetail, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	topics, err := s.admin.ListTopics(ctx, s.cfg.Topic)
	if err != nil {
		return kadm.TopicDetail{}, s.wrap(fmt.Errorf("no broker of %s answers: %w; check the addresses, TLS and SASL", strings.Join(s.cfg.Brokers, ", "), err))
	}
	t := topics[s.cfg.Topic]
	return t, s.wrap(t.Err)
}

// wrap says what to do about an error of a broker.
func (s *Source) wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		err = fmt.Errorf("topic %q does not exist, or the login may not describe it: %w; create it, or grant DESCRIBE and READ on it", s.cfg.Topic, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		err = fmt.Errorf("no permission to read topic %q: %w; grant READ and DESCRIBE on it", s.cfg.Topic, err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		err = fmt.Errorf("no permission to use group %q: %w; grant READ and DESCRIBE on it", s.cfg.Group, err)
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		err = fmt.Errorf("the brokers refuse the credentials: %w; check the SASL mechanism, username and password", err)
	}
	return fmt.Errorf("kafka source: %w", err)
}

// Check implements [adapters.Source]: the topic can be read, and no other program is in the group.
func (s *Source) Check(ctx context.Context) error {
	if _, err := s.limits(ctx, true); err != nil {
		return err
	}
	if _, err := s.committed(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	groups, err := s.admin.DescribeGroups(ctx, s.cfg.Group)
	if err == nil {
		err = groups[s.cfg.Group].Err
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return s.wrap(err)
	}
	for _, m := range groups[s.cfg.Group].Members {
		if m.ClientID != clientID {
			return s.wrap(fmt.Errorf("another program uses group %q: client %q at %s; give the source a group of its own", s.cfg.Group, m.ClientID, m.ClientHost))
		}
	}
	return nil
}

// Table implements [adapters.Source]. A topic that was deleted and created again is another one.
func (s *Source) Table(ctx context.Context) (adapters.Table, error) {
	t, err := s.topic(ctx)
	if err != nil {
		return adapters.Table{}, err
	}
	meta, err := s.admin.BrokerMetadata(ctx)
	if err != nil {
		return adapters.Table{}, s.wrap(err)
	}
	return adapters.Table{Cluster: meta.Cluster, Name: fmt.Sprintf("topic %s (%s)", s.cfg.Topic, t.ID), Lanes: "partition"}, nil
}

// bounds are the offsets of the partitions: the first that is left, and the one behind the last that a reader of committed records sees.
type bounds struct {
	at         time.Time
	first, end map[int]int64
}

// boundsAge is how long bounds are used: hundreds of lanes are acquired at once.
const boundsAge = time.Second

// limits asks for the bounds; fresh: those of a moment ago do not do.
func (s *Source) limits(ctx context.Context, fresh bool) (bounds, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fresh && time.Since(s.bounds.at) < boundsAge {
		return s.bounds, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	first, err := s.admin.ListStartOffsets(ctx, s.cfg.Topic)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return bounds{}, s.wrap(err)
	}
	end, err := s.admin.ListCommittedOffsets(ctx, s.cfg.Topic)
	if err == nil {
		err = end.Error()
	}
	if err != nil {
		return bounds{}, s.wrap(err)
	}
	s.bounds = bounds{at: time.Now(), first: offsetsOf(first[s.cfg.Topic]), end: offsetsOf(end[s.cfg.Topic])}
	return s.bounds, nil
}

func offsetsOf(listed map[int32]kadm.ListedOffset) map[int]int64 {
	out := make(map[int]int64, len(listed))
	for p, o := range listed {
		out[int(p)] = o.Offset
	}
	return out
}

// committed returns what the group has committed, by partition.
func (s *Source) committed(ctx context.Context) (map[int]kadm.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	offsets, err := s.admin.FetchOffsets(ctx, s.cfg.Group)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, s.wrap(err)
	}
	out := map[int]kadm.Offset{}
	for p, o := range offsets[s.cfg.Topic] {
		if o.At >= 0 {
			out[int(p)] = o.Offset
		}
	}
	return out, nil
}

// beginning is the cursor before the first record that is there, wherever that is.
var beginning = adapters.Cursor{Position: -1}

// Start implements [adapters.Source]. The end is that of the longest partition, see [Source.StartIn].
func (s *Source) Start(ctx context.Context, at adapters.Start) (adapters.Cursor, error) {
	starts, err := s.Starts(ctx, at)
	c := beginning
	for _, position := range starts {
		c.Position = max(c.Position, position)
	}
	return c, err
}

// Starts implements [adapters.PartitionedSource].
func (s *Source) Starts(ctx context.Context, at adapters.Start) (map[int]int64, error) {
	b, err := s.limits(ctx, at.Kind == adapters.StartEnd)
	if err != nil {
		return nil, err
	}
	out := make(map[int]int64, len(b.end))
	switch at.Kind {
	case adapters.StartEnd:
		for p, end := range b.end {
			out[p] = end - 1
		}
		return out, nil
	case adapters.StartTime:
		ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
		defer cancel()
		listed, err := s.admin.ListOffsetsAfterMilli(ctx, at.Time.UnixMilli(), s.cfg.Topic)
		if err == nil {
			err = listed.Error()
		}
		for p, offset := range offsetsOf(listed[s.cfg.Topic]) {
			out[p] = offset - 1
		}
		return out, s.wrap(err)
	case adapters.StartOffsets:
		return nil, adapters.NoStart("a topic begins at the offsets of its own group")
	}
	for p := range b.end {
		out[p] = beginning.Position
	}
	return out, nil
}

// StartIn implements [adapters.PartitionedSource]. A partition begins where the group has committed, for another program may have read it before.
// Where the group has committed nothing at all, the starts of all partitions are committed together: a partition that has none after that was
// added later, and begins with its first record.
func (s *Source) StartIn(ctx context.Context, slot int, at adapters.Start) (adapters.Cursor, error) {
	committed, err := s.committed(ctx)
	if err != nil {
		return adapters.Cursor{}, err
	}
	if o, ok := committed[slot]; ok {
		return adapters.Cursor{Position: o.At - 1}, nil
	}
	if len(committed) > 0 {
		return beginning, nil
	}
	starts, err := s.Starts(ctx, at)
	if err != nil {
		return adapters.Cursor{}, err
	}
	if err := s.group.commit(ctx, s.cfg.Topic, starts); err != nil {
		return adapters.Cursor{}, s.wrap(fmt.Errorf("commit where the group begins: %w", err))
	}
	position, ok := starts[slot]
	if !ok {
		position = beginning.Position
	}
	return adapters.Cursor{Position: position}, nil
}

// gone is the error for a cursor that names records which are not there.
type gone string

func (g gone) Error() string { return string(g) }

// Is has it count as [adapters.ErrWentBack]: no retry brings the records back.
func (g gone) Is(target error) bool { return target == adapters.ErrWentBack } //nolint:errorlint // the contract of errors.Is

// Validate implements [adapters.Source]. Which partition a cursor is of is known to [Source.ValidateIn].
func (s *Source) Validate(context.Context, adapters.Cursor) error { return nil }

// ValidateIn implements [adapters.PartitionedSource].
func (s *Source) ValidateIn(ctx context.Context, slot int, c adapters.Cursor) error {
	next := c.Position + 1
	b, err := s.limits(ctx, false)
	if err == nil && next > b.end[slot] {
		b, err = s.limits(ctx, true) // it has grown since
	}
	if err != nil {
		return err
	}
	first, ok := b.first[slot]
	switch {
	case !ok:
		return gone(fmt.Sprintf("topic %s has no partition %d any more", s.cfg.Topic, slot))
	case next > b.end[slot]:
		return gone(fmt.Sprintf("partition %d of topic %s was truncated: it ends at offset %d, and offsets below %d were delivered", slot, s.cfg.Topic, b.end[slot], next))
	case next > 0 && next < first:
		return gone(fmt.Sprintf("offsets %d to %d of partition %d of topic %s were removed before they were delivered: see the topic's retention", next, first-1, slot, s.cfg.Topic))
	}
	s.compare(ctx, slot, next)
	return nil
}

// compare logs an offset that another program has committed: the state store says where a lane continues.
func (s *Source) compare(ctx context.Context, slot int, next int64) {
	committed, err := s.committed(ctx)
	o, ok := committed[slot]
	if err != nil || !ok || o.Metadata == mark || o.At == next {
		return
	}
	text := fmt.Sprint(slot, o.At)
	s.mu.Lock()
	known := s.warned[text]
	s.warned[text] = true
	s.mu.Unlock()
	if !known {
		s.cfg.Logger.Warn("another program has committed an offset of the group; the state store's is used. To move it, use outrider seek",
			"group", s.cfg.Group, "topic", s.cfg.Topic, "partition", slot, "committed", o.At, "used", next)
	}
}

// Anchored implements [adapters.Source]: a topic has an id, so its cursors need no anchor.
func (s *Source) Anchored(_ context.Context, c adapters.Cursor) (adapters.Cursor, error) {
	return c, nil
}

// Lanes implements [adapters.PartitionedSource].
func (s *Source) Lanes() int { return s.lanes }

// Close implements [adapters.Source].
func (s *Source) Close() error {
	s.Leave()
	s.reader.close()
	s.admin.Close()
	return nil
}

// membership is the client that is a member of the group.
type membership struct {
	mu     sync.Mutex
	client *kgo.Client // nil: not joined
	owned  map[int32]bool
	of     int
}

// Join implements [adapters.PartitionedSource].
func (s *Source) Join(calls adapters.GroupCalls) error {
	g := &s.group
	change := func(gained, left []int32) {
		g.mu.Lock()
		if g.owned == nil { // it has left
			gained = nil
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
		kgo.RebalanceTimeout(s.cfg.Rebalance), kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1), kgo.MaxConcurrentFetches(1),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, gained map[string][]int32) {
			cl.PauseFetchTopics(topic) // the other client reads
			change(gained[topic], nil)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, left map[string][]int32) {
			change(nil, left[topic])
			calls.Revoked(ints(left[topic]))
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, left map[string][]int32) {
			change(nil, left[topic])
			calls.Lost(ints(left[topic]))
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
		offsets[int32(slot)] = kgo.EpochOffset{Epoch: -1, Offset: position + 1} //nolint:gosec // G115: partitions are int32
	}
	var failed error
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				req.Topics[i].Partitions[j].Metadata = kmsg.StringPtr(mark)
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
