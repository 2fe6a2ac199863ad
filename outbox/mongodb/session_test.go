package mongodb_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/mongodb"
)

// member speaks as much of MongoDB's protocol as the only member of a replica set needs to for writing in transactions. It agrees to
// everything, and notes what it was sent.
type member struct {
	net.Listener
	conns sync.WaitGroup

	mu   sync.Mutex
	sent []bson.Raw
}

func startMember(t *testing.T) *member {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	m := &member{Listener: l}
	m.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			m.conns.Go(func() { m.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); m.conns.Wait() })
	return m
}

// The protocol's messages: four numbers (length, id, id of what is answered, kind), and what follows.
const (
	header             = 16
	opReply, opQuery   = 1, 2004 // of the first greeting
	opMsg              = 2013
	querysSkip, msgTop = 8, 5 // two numbers behind the name of a collection; flags and the kind of a section
)

func (m *member) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for {
		head := make([]byte, header)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		body := make([]byte, binary.LittleEndian.Uint32(head)-header)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		var answer bson.Raw
		before, kind := make([]byte, msgTop), uint32(opMsg)
		if binary.LittleEndian.Uint32(head[12:]) == opQuery {
			command := body[4+bytes.IndexByte(body[4:], 0)+1+querysSkip:]
			answer, before, kind = m.answer(command), make([]byte, 20), opReply
			before[16] = 1 // one document
		} else {
			answer = m.answer(body[msgTop:])
		}
		out := binary.LittleEndian.AppendUint32(nil, uint32(header+len(before)+len(answer)))
		out = append(append(out, 0, 0, 0, 0), head[4:8]...)
		out = append(append(binary.LittleEndian.AppendUint32(out, kind), before...), answer...)
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// answer notes a command, and agrees to it.
func (m *member) answer(text []byte) bson.Raw {
	command := bson.Raw(text[:binary.LittleEndian.Uint32(text)])
	first, err := command.IndexErr(0)
	reply := bson.D{{Key: "ok", Value: 1}}
	switch {
	case err != nil:
		reply = bson.D{{Key: "ok", Value: 0}}
	case first.Key() == "hello" || first.Key() == "isMaster" || first.Key() == "ismaster":
		at := m.Addr().String()
		reply = append(reply, bson.E{Key: "ismaster", Value: true}, bson.E{Key: "setName", Value: "rs"}, bson.E{Key: "hosts", Value: bson.A{at}}, bson.E{Key: "me", Value: at},
			bson.E{Key: "maxWireVersion", Value: 13}, bson.E{Key: "logicalSessionTimeoutMinutes", Value: 30}, bson.E{Key: "maxBsonObjectSize", Value: 16 << 20},
			bson.E{Key: "maxMessageSizeBytes", Value: 48 << 20}, bson.E{Key: "maxWriteBatchSize", Value: 100_000})
	case first.Key() != "endSessions":
		m.mu.Lock()
		m.sent = append(m.sent, slices.Clone(command))
		m.mu.Unlock()
		reply = append(reply, bson.E{Key: "n", Value: 1})
	}
	out, _ := bson.Marshal(reply) // which can be written
	return out
}

// take returns what was sent since the last time.
func (m *member) take() []bson.Raw {
	m.mu.Lock()
	defer m.mu.Unlock()
	sent := m.sent
	m.sent = nil
	return sent
}

// TestG1_PublishWritesInTheSessionsTransaction compares what a server is sent: the application's write and the message are of one transaction, which
// ends once, as the application wants it.
func TestG1_PublishWritesInTheSessionsTransaction(t *testing.T) {
	t.Parallel()
	server := startMember(t)
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + server.Addr().String() + "/?replicaSet=rs"))
	must(t, err)
	t.Cleanup(func() { must(t, client.Disconnect(context.Background())) })
	db := client.Database("shop")
	c, err := mongodb.NewFlowCatalyst(mongodb.Config{Database: db})
	must(t, err)
	session, err := client.StartSession()
	must(t, err)
	defer session.EndSession(context.Background())
	for end, failure := range map[string]error{"commitTransaction": nil, "abortTransaction": errors.New("the application changed its mind")} {
		server.take()
		_, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
			if _, err := db.Collection("orders").InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
				return nil, err
			}
			if _, err := c.Publish(ctx, outbox.FlowCatalystItem{Group: "g", Payload: []byte(`{}`)}, outbox.FlowCatalystItem{Kind: outbox.FlowCatalystDispatchJob, Payload: []byte(`{}`)}); err != nil {
				return nil, err
			}
			return nil, failure
		})
		if !errors.Is(err, failure) {
			t.Fatal(err)
		}
		var what []string
		sent := server.take()
		for i, command := range sent {
			first := command.Index(0)
			name, _ := first.Value().StringValueOK() // of a collection
			what = append(what, first.Key()+" "+name)
			for _, key := range []string{"lsid", "txnNumber"} {
				if !command.Lookup(key).Equal(sent[0].Lookup(key)) || command.Lookup(key).IsZero() {
					t.Errorf("%s has %s %v, the first command %v", what[i], key, command.Lookup(key), sent[0].Lookup(key))
				}
			}
			starts, _ := command.Lookup("startTransaction").BooleanOK()
			if alone, ok := command.Lookup("autocommit").BooleanOK(); !ok || alone || starts != (i == 0) {
				t.Errorf("%s is no part of the transaction: %v", what[i], command)
			}
		}
		if want := []string{"insert orders", "insert outbox_events", "insert outbox_dispatch_jobs", end + " "}; !slices.Equal(what, want) {
			t.Errorf("the server was sent %q, want %q", what, want)
		}
	}
}
