package mongodb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// connectLimit is for how long a server is looked for.
const connectLimit = 10 * time.Second

// Connection says how a server is reached.
type Connection struct {
	URL      string      // mongodb:// or mongodb+srv://
	TLS      *tls.Config // nil: what the URL says
	Database string

	monitor *event.CommandMonitor // for tests; nil: none
}

// server is a connected client.
type server struct {
	client *mongo.Client
	name   string // of the database

	mu sync.Mutex
	db *mongo.Database // nil: what the server is has not been asked yet
	// members reports whether there may be several servers: a replica set, or a cluster of them.
	members bool
}

// open makes a client. It connects when it is first used.
func (c Connection) open() (*server, error) {
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
		o.SetServerSelectionTimeout(connectLimit)
	}
	if c.TLS != nil {
		o.SetTLSConfig(c.TLS)
	}
	if c.monitor != nil {
		o.SetMonitor(c.monitor)
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", plainly(err))
	}
	return &server{client: client, name: c.Database}, nil
}

// database asks the server once what it is. Claims of a replica set hold for a majority, so that a server which
// does not know yet that another one has replaced it cannot grant them; messages are delivered that no failover can take back.
func (s *server) database(ctx context.Context) (*mongo.Database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		return s.db, nil
	}
	o := options.Database().SetReadPreference(readpref.Primary())
	var is struct {
		Set     string `bson:"setName"`
		Message string `bson:"msg"`
	}
	db := s.client.Database(s.name, o)
	if err := db.RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Decode(&is); err != nil {
		return nil, notConnected(err)
	}
	if s.members = is.Set != "" || is.Message == "isdbgrid"; s.members {
		db = s.client.Database(s.name, o.SetReadConcern(readconcern.Majority()).SetWriteConcern(writeconcern.Majority()))
	}
	s.db = db
	return db, nil
}

func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	return plainly(s.client.Disconnect(ctx))
}
