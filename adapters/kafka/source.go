package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

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
	errs := []error{c.complete()}
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
	if err != nil && !errors.As(err, new(*kerr.Error)) {
		err = fmt.Errorf("no broker of %s answers: %w; check the addresses, TLS and SASL", strings.Join(s.cfg.Brokers, ", "), err)
	}
	if err != nil {
		return kadm.TopicDetail{}, s.wrap(err)
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
	var groups kadm.DescribedGroups
	err := patiently(ctx, func() (err error) {
		if groups, err = s.admin.DescribeGroups(ctx, s.cfg.Group); err == nil {
			err = groups[s.cfg.Group].Err
		}
		return err
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return s.wrap(err)
	}
	for _, m := range groups[s.cfg.Group].Members {
		if m.ClientID != clientID {
			return s.wrap(fmt.Errorf("another program uses group %q: client %q at %s; give the source a group of its own, or stop the other program (one that was killed stays in the group until its session timeout)", s.cfg.Group, m.ClientID, m.ClientHost))
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

// Lanes implements [adapters.PartitionedSource].
func (s *Source) Lanes() int { return s.lanes }

// Wake implements [adapters.Waker].
func (s *Source) Wake() <-chan struct{} { return s.reader.wake }

// Sleep implements [adapters.Waker]: whatever comes wakes the reader.
func (s *Source) Sleep(context.Context) adapters.Sleep { return adapters.Armed }

// Awake implements [adapters.Waker].
func (s *Source) Awake() {}

// Follows implements [adapters.Waker].
func (s *Source) Follows() bool { return false }

// Close implements [adapters.Source].
func (s *Source) Close() error {
	s.Leave()
	s.reader.close()
	s.admin.Close()
	return nil
}
