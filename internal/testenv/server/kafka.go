package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaOptions says how a Kafka broker is started.
type KafkaOptions struct {
	Java string // the java program. Required
	Jars string // the folder of the broker's jars. Required

	// QuickRestart has a killed broker back in 5 seconds instead of 15: its
	// controller refuses a new incarnation until the session of the one before
	// has ended. A shared broker is better off with Kafka's long session, since
	// a machine that is busy for a second then means nothing.
	QuickRestart bool

	// Brief is for a broker that lives for minutes, as with QuickRestart always:
	// machine code is made quickly instead of well.
	Brief bool

	// Archive is the file of an archive of classes (class data sharing), which halves the processor time of a start. Where it is
	// missing, a brief broker writes it when it is closed.
	Archive string

	// Advertise is the address (host:port) that the broker advertises to clients,
	// for a proxy in front of the broker. Default: the broker's own.
	Advertise string

	// Keep lets the broker outlive the process that started it.
	Keep bool

	// Security adds listeners with TLS; nil: none.
	Security *KafkaSecurity
}

// Kafka is a Kafka broker on a loopback port: a node that is broker and
// controller at once (KRaft). Methods may be called concurrently.
type Kafka struct {
	*host
	opts KafkaOptions
	port int

	cluster string   // id of the cluster
	voters  []string // addresses of the controllers, by node
	node    int      // from 0

	archives bool // Java writes the archive of classes when the broker ends

	login, mutual int // ports of SASL over TLS and of clients with certificates; 0: none
}

// StartKafka makes a new cluster of one broker and starts it. The caller must
// Close it, unless Keep is set. The error of a failed start holds the
// broker's log.
func StartKafka(ctx context.Context, opts KafkaOptions) (*Kafka, error) {
	brokers, err := StartKafkaCluster(ctx, opts, 1)
	if err != nil {
		return nil, err
	}
	return brokers[0], nil
}

// StartKafkaCluster is [StartKafka] for a cluster of several brokers.
func StartKafkaCluster(ctx context.Context, opts KafkaOptions, brokers int) ([]*Kafka, error) {
	const each = 4
	ports, err := FreePorts(ctx, each*brokers)
	if err != nil {
		return nil, err
	}
	cluster, voters := clusterID(), make([]string, brokers)
	for i := range voters {
		voters[i] = address(ports[each*i+1])
	}
	all, errs := make([]*Kafka, brokers), make([]error, brokers)
	var starts sync.WaitGroup // together: one alone is no quorum
	for i := range all {
		h, err := newHost("Kafka", "", "outrider-kafka-")
		if err != nil {
			errs[i] = err
			break
		}
		s := &Kafka{host: h, opts: opts, port: ports[each*i], cluster: cluster, voters: voters, node: i}
		if opts.Security != nil {
			s.login, s.mutual = ports[each*i+2], ports[each*i+3]
		}
		all[i] = s
		starts.Go(func() {
			if errs[i] = s.format(ctx); errs[i] == nil {
				errs[i] = s.Start(ctx)
			}
		})
	}
	starts.Wait()
	err = errors.Join(errs...)
	for _, s := range all {
		if err != nil && s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return all, err
}

// Brokers returns the broker's address, which stays the same over restarts.
func (s *Kafka) Brokers() []string { return []string{address(s.port)} }

// Dial connects to the broker itself, whatever address it advertises; it is a
// dialer for franz-go.
func (s *Kafka) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address(s.port))
}

// Start starts the stopped broker on its port and data, and returns when every
// partition has a leader.
func (s *Kafka) Start(ctx context.Context) error {
	args := s.java(s.opts.Brief || s.opts.QuickRestart, "kafka.Kafka", s.configFile())
	if s.archives = s.writesClasses(); s.archives {
		args = append([]string{"-XX:+IgnoreUnrecognizedVMOptions", "-XX:ArchiveClassesAtExit=" + s.newArchive()}, args...)
	}
	c := command{
		path: s.opts.Java,
		args: args,
		dir:  s.dir,
		env:  os.Environ(),
		log:  filepath.Join(s.dir, "log"),
	}
	if !s.opts.Keep {
		c.orphanSignal = syscall.SIGKILL
	}
	return s.start(ctx, c, syscall.SIGKILL, s.awaitLeaders)
}

// Close kills the broker if it runs and deletes its data: a clean shutdown takes seconds. One that writes an archive of
// classes needs it.
func (s *Kafka) Close() error {
	var err error
	if s.archives {
		err = s.keepClasses()
	}
	return errors.Join(err, s.close(syscall.SIGKILL))
}

// awaitLeaders returns when the broker is known to its controller and leads
// all partitions: before that, produce requests are refused.
func (s *Kafka) awaitLeaders(ctx context.Context, p *process) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers()...), kgo.Dialer(s.Dial))
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)

	return awaitReady(ctx, "Kafka", p, func(ctx context.Context) error {
		// Short, so that a broker that has exited is noticed soon.
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		meta, err := admin.Metadata(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(meta.Brokers.NodeIDs(), int32(s.node+1)) {
			return errors.New("the controller does not know the broker yet")
		}
		var leaderless error
		meta.Topics.EachPartition(func(d kadm.PartitionDetail) {
			if d.Leader < 0 {
				leaderless = fmt.Errorf("topic %s, partition %d has no leader yet", d.Topic, d.Partition)
			}
		})
		return leaderless
	})
}

// java returns the arguments that run one of Kafka's programs. A brief one takes a
// third less processor time to start, and is slower later.
func (s *Kafka) java(brief bool, class string, args ...string) []string {
	flags := []string{"-Xmx768m", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}
	if brief {
		flags = slices.Concat(flags, []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}, s.classes())
	}
	return slices.Concat(flags, []string{"-cp", filepath.Join(s.opts.Jars, "*"), class}, args)
}

func (s *Kafka) configFile() string { return filepath.Join(s.dir, "server.properties") }

// format writes the configuration and prepares the data folder.
func (s *Kafka) format(ctx context.Context) error {
	if err := os.WriteFile(s.configFile(), []byte(s.config()), 0o600); err != nil {
		return fmt.Errorf("configure Kafka: %w", err)
	}
	args := append([]string{"format", "--cluster-id", s.cluster, "--config", s.configFile()}, s.opts.Security.users()...)
	cmd := exec.CommandContext(ctx, s.opts.Java, s.java(true, "kafka.tools.StorageTool", args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's storage: %w:\n%s", err, out)
	}
	return nil
}

// clusterID returns 16 random bytes as Kafka writes them. The first character
// is a letter, since one in 64 would otherwise look like a flag.
func clusterID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[0] &= 0x3f
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// config returns the broker's configuration. Kafka's own topics have a replica on each broker. Tests create theirs, as in production.
func (s *Kafka) config() string {
	voters := make([]string, len(s.voters))
	for i, at := range s.voters {
		voters[i] = fmt.Sprintf("%d@%s", i+1, at)
	}
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=%d
controller.quorum.voters=%s
listeners=PLAINTEXT://%s,CONTROLLER://%s%[5]s
advertised.listeners=PLAINTEXT://%[6]s%[5]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL,MUTUAL:SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=%[7]s
num.partitions=8
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=%[8]d
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=%[8]d
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=8
`, s.node+1, strings.Join(voters, ","), address(s.port), s.voters[s.node], s.secureListeners(), cmp.Or(s.opts.Advertise, address(s.port)),
		filepath.Join(s.dir, "data"), len(s.voters))
	text += s.opts.Security.config()
	if s.opts.QuickRestart {
		text += "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"
	}
	return text
}
