package mdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// ConnectLimit is for how long a server is looked for.
const ConnectLimit = 10 * time.Second

// Connection says how a server is reached.
type Connection struct {
	URL      string      // mongodb:// or mongodb+srv://
	TLS      *tls.Config // nil: what the URL says
	Database string

	Monitor *event.CommandMonitor // for tests; nil: none
	Now     func() time.Time      // for tests; nil: time.Now
}

// Server is a connected client.
type Server struct {
	client *mongo.Client
	name   string // of the database
	now    func() time.Time
	ahead  atomic.Int64 // by how many nanoseconds the server's clock is ahead of ours

	mu sync.Mutex
	db *mongo.Database // nil: what the server is has not been asked yet
	// Members reports whether there may be several servers: a replica set, or a cluster of them.
	Members bool
}

// Open makes a client. It connects when it is first used.
func (c Connection) Open() (*Server, error) {
	if c.Database == "" {
		return nil, errors.New("no database is named")
	}
	o := options.Client().ApplyURI(c.URL)
	if o.Validate() != nil { // what it says may hold a part of a password
		return nil, errors.New("the url is none that MongoDB's driver takes: mongodb://user:password@host:27017/?options, special characters of a password %-encoded")
	}
	if o.AppName == nil {
		o.SetAppName("outrider")
	}
	if o.ServerSelectionTimeout == nil {
		o.SetServerSelectionTimeout(ConnectLimit)
	}
	if c.TLS != nil {
		o.SetTLSConfig(c.TLS)
	}
	if c.Monitor != nil {
		o.SetMonitor(c.Monitor)
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", Plainly(err))
	}
	s := &Server{client: client, name: c.Database, now: time.Now}
	if c.Now != nil {
		s.now = c.Now
	}
	return s, nil
}

// Database asks the server once what it is. Claims of a replica set hold for a majority, so that a server which
// does not know yet that another one has replaced it cannot grant them; messages are delivered that no failover can take back.
func (s *Server) Database(ctx context.Context) (*mongo.Database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		return s.db, nil
	}
	o := options.Database().SetReadPreference(readpref.Primary())
	db := s.client.Database(s.name, o)
	is, err := s.hello(ctx)
	if err != nil {
		return nil, notConnected(err)
	}
	if s.Members = is.Set != "" || is.Message == "isdbgrid"; s.Members {
		db = s.client.Database(s.name, o.SetReadConcern(readconcern.Majority()).SetWriteConcern(writeconcern.Majority()))
	}
	s.db = db
	return db, nil
}

// hello is a server's description of itself.
type hello struct {
	Set     string    `bson:"setName"`
	Message string    `bson:"msg"`
	Now     time.Time `bson:"localTime"`
}

// hello asks the primary what it is, and compares its clock with ours. An answer that took long says too little of it.
func (s *Server) hello(ctx context.Context) (is hello, err error) {
	asked := s.now()
	err = s.client.Database(s.name, options.Database().SetReadPreference(readpref.Primary())).RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Decode(&is)
	if took := s.now().Sub(asked); err == nil && !is.Now.IsZero() && took < time.Second {
		s.ahead.Store(int64(is.Now.Sub(asked.Add(took / 2))))
	}
	return is, err
}

// SyncClock compares the server's clock with ours again.
func (s *Server) SyncClock(ctx context.Context) error {
	_, err := s.hello(ctx)
	return err
}

// Clock is the server's clock, about.
func (s *Server) Clock() time.Time { return s.now().Add(time.Duration(s.ahead.Load())) }

// Close ends the connections.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), ConnectLimit)
	defer cancel()
	return Plainly(s.client.Disconnect(ctx))
}
