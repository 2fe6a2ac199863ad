package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Servers are the addresses of one server, of the nodes of a cluster, or of the sentinels of a master.
type Servers struct {
	Addresses []string // host:port. Required
	Cluster   bool     // they are nodes of a cluster
	Sentinel  Sentinel // its Master is set: they are sentinels

	Username string // Default: Redis's user "default"
	Password string
	DB       int         // not of a cluster
	TLS      *tls.Config // nil: connections are not encrypted

	// Timeout is the longest time for a request, from dialling to the answer. Default: 10 s.
	Timeout time.Duration
}

// Sentinel says which master sentinels are asked for, and how to log in to them.
type Sentinel struct {
	Master, Username, Password string
}

// DefaultTimeout is the default of [Servers.Timeout].
const DefaultTimeout = 10 * time.Second

// check completes the servers, or returns what is wrong with them.
func (s *Servers) check() error {
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	switch {
	case len(s.Addresses) == 0:
		return errors.New("no address: give host:port")
	case s.Timeout < 0:
		return errors.New("the timeout must not be negative")
	case s.Cluster && s.Sentinel.Master != "":
		return errors.New("cluster and sentinel exclude each other: a cluster fails over by itself")
	case len(s.Addresses) > 1 && !s.Cluster && s.Sentinel.Master == "":
		return errors.New("several addresses are nodes of a cluster or sentinels: set cluster or the sentinels' master")
	case s.Cluster && s.DB != 0:
		return errors.New("a cluster has only database 0")
	}
	return nil
}

// quiet is the logger of the client library, which has one for the whole process. What it says of broken connections is in the errors.
type quiet struct{}

func (quiet) Printf(ctx context.Context, text string, args ...any) {
	slog.DebugContext(ctx, fmt.Sprintf(text, args...))
}

var silence = sync.OnceFunc(func() { redis.SetLogger(quiet{}) })

// open returns a client of at most so many connections to each server. It repeats nothing: a request that was sent twice could be stored
// twice, and behind later ones.
func (s *Servers) open(connections int) redis.UniversalClient {
	const buffer = 64 << 10
	silence()
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Addresses, IsClusterMode: s.Cluster,
		MasterName: s.Sentinel.Master, SentinelUsername: s.Sentinel.Username, SentinelPassword: s.Sentinel.Password,
		Username: s.Username, Password: s.Password, DB: s.DB, TLSConfig: s.TLS, Protocol: 2,
		MaxRetries: -1, MaxRedirects: -1, DialerRetries: 1,
		ContextTimeoutEnabled: true, DialTimeout: s.Timeout, ReadTimeout: s.Timeout, WriteTimeout: s.Timeout,
		PoolSize: connections, PipelinePoolSize: -1, ReadBufferSize: buffer, WriteBufferSize: buffer,
		DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// nodeOf returns the client of the server that has a key.
func nodeOf(ctx context.Context, c redis.UniversalClient, key string) (*redis.Client, error) {
	switch c := c.(type) {
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	case *redis.Client:
		return c, nil
	}
	return nil, errors.New("an unknown kind of client")
}
