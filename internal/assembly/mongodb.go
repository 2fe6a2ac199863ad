package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters/mongodb"
	"github.com/outriderhq/outrider/adapters/mongodb/queuetable"
	"github.com/outriderhq/outrider/config"
)

// mongoCollections is a source in MongoDB.
type mongoCollections struct {
	site
	*config.MongoDB
}

// mongoDatabase is MongoDB, which holds no state.
var mongoDatabase = database{lost: mongodb.ConnectionLost}

// mongoSource is the kind of a source in MongoDB, which holds no state.
func mongoSource(at site, s *config.MongoDB) SourceKind {
	m := mongoCollections{at, s}
	return SourceKind{Queue: true, Leader: s.Leader, Open: m.open, Init: m.init, InitSQL: m.initScript, Retention: queueRetention(s.Retention)}
}

func (m mongoCollections) open(context.Context) (Feed, error) {
	cfg, err := m.queue()
	if err != nil {
		return Feed{}, err
	}
	queue, err := queuetable.New(cfg)
	if err != nil {
		return Feed{}, err
	}
	return queueFeed(&m.TableSource, len(cfg.Tables), queue), nil
}

// connection is how the server is reached.
func (m mongoCollections) connection() (queuetable.Connection, error) {
	tls, err := newTLS(m.TLS, m.Encrypted())
	return queuetable.Connection{URL: m.URL.Reveal(), TLS: tls, Database: m.In()}, err
}

func (m mongoCollections) queue() (queuetable.Config, error) {
	at, err := m.connection()
	if err != nil {
		return queuetable.Config{}, err
	}
	cfg := queuetable.Config{Connection: at, Batch: m.Poll.Batch, Timeout: m.Claims.Timeout.Std(), MaxRow: int64(m.MaxRow), Notify: m.Notified(), Logger: m.log}
	cfg.Layout, cfg.Tables = queueOf(&m.TableSource, m.Retention != nil)
	return cfg, nil
}

func (m mongoCollections) init(ctx context.Context) ([]string, error) {
	cfg, err := m.queue()
	if err != nil {
		return nil, err
	}
	return queuetable.Init(ctx, cfg.Connection, cfg.Layout, cfg.Tables...)
}

func (m mongoCollections) initScript(to Grantees) string {
	of, tables := queueOf(&m.TableSource, m.Retention != nil)
	return queuetable.InitScript(of, m.In(), to.Relay, tables...)
}
