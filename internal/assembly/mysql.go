package assembly

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/mysql"
	"github.com/outriderhq/outrider/adapters/mysql/queuetable"
	"github.com/outriderhq/outrider/adapters/mysql/statestore"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
)

// mysqlTable is a source in MariaDB or MySQL: tables whose rows carry a status.
type mysqlTable struct {
	site
	*config.MySQL
}

// mysqlSource is the kind of a source in MariaDB or MySQL.
func mysqlSource(at site, s *config.MySQL) SourceKind {
	t := mysqlTable{at, s}
	k := SourceKind{Queue: true, Leader: s.Leader, Open: t.open, Init: t.init, InitSQL: t.initSQL, Publish: t.publish,
		Retention: queueRetention(s.Retention), Read: t.Preset() != nil && t.Preset().Hot, Adds: t.adds}
	if s.Leader && s.LeaderLock != "" {
		k.Lock = t.lock
	}
	return k
}

func (t mysqlTable) open(context.Context) (Feed, error) {
	cfg := t.queue()
	cfg.URL, cfg.Logger = t.URL.Reveal(), t.log
	location, err := t.stateLocation(t.name)
	if err != nil {
		return Feed{}, err
	}
	if cfg.TLS, err = mysqlTLS(t.TLS); err != nil {
		return Feed{}, err
	}
	cfg.Fenced = mysql.Database(location) != "" && mysql.Database(location) == mysql.Database(t.URL.Reveal())
	queue, err := queuetable.New(cfg)
	if err != nil {
		return Feed{}, err
	}
	return queueFeed(&t.TableSource, len(cfg.Tables), queue), nil
}

func (t mysqlTable) lock(context.Context) (leaderLock, error) {
	security, err := mysqlTLS(t.TLS)
	if err != nil {
		return nil, err
	}
	return statestore.NewLeaderLock(statestore.LeaderConfig{URL: t.URL.Reveal(), TLS: security, Name: t.LeaderLock})
}

// queue describes the tables of a queue, without where they are.
func (t mysqlTable) queue() queuetable.Config {
	cfg := queuetable.Config{Batch: t.Poll.Batch, Timeout: t.Claims.Timeout.Std(), MaxRow: int64(t.MaxRow)}
	cfg.Layout, cfg.Tables = queueOf(&t.TableSource, t.Retention != nil)
	for i := range cfg.Tables { // the configuration quotes as standard SQL does
		cfg.Tables[i].Name = strings.ReplaceAll(cfg.Tables[i].Name, `"`, "`")
	}
	return cfg
}

func (t mysqlTable) init(ctx context.Context) ([]string, error) {
	return t.inDatabase(func(db *sql.DB, cfg queuetable.Config) ([]string, error) {
		return queuetable.Init(ctx, db, cfg.Layout, t.Preset() != nil, cfg.Tables...)
	})
}

func (t mysqlTable) adds(ctx context.Context) ([]string, error) {
	return t.inDatabase(func(db *sql.DB, cfg queuetable.Config) ([]string, error) {
		return queuetable.Adds(ctx, db, cfg.Layout, cfg.Tables...)
	})
}

// inDatabase connects for a moment.
func (t mysqlTable) inDatabase(do func(db *sql.DB, cfg queuetable.Config) ([]string, error)) ([]string, error) {
	security, err := mysqlTLS(t.TLS)
	if err != nil {
		return nil, err
	}
	db, err := mysql.Open(t.URL.Reveal(), security)
	if err != nil {
		return nil, err
	}
	did, err := do(db, t.queue())
	return did, errors.Join(err, db.Close())
}

func (t mysqlTable) initSQL(to Grantees) string {
	cfg := t.queue()
	return queuetable.InitSQL(cfg.Layout, t.Preset() != nil, cfg.Tables...) + "\n" +
		queuetable.Grants(cfg.Layout, cfg.Tables...).SQL(to.Relay, to.Operator, to.Publisher)
}

func (t mysqlTable) publish(context.Context, []outbox.Envelope) error {
	return notOwnTable(t.Layout)
}

// mysqlDatabase is MariaDB or MySQL.
var mysqlDatabase = database{
	schemes: []string{"mysql://", "mariadb://"}, state: mysqlState,
	lost: mysql.ConnectionLost, problem: mysql.ConnectionProblem, fix: mysql.ConnectionFix,
}

func mysqlState(b *Builder, location string) StateKind {
	return serverState(location, func(ctx context.Context) (adapters.OperatorStore, error) {
		security, err := mysqlTLS(b.Config.StateTLS(location))
		if err != nil {
			return nil, err
		}
		return statestore.New(ctx, statestore.Config{URL: location, TLS: security, Logger: b.log})
	}, statestore.InitSQL, func(to Grantees) string { return statestore.Grants().SQL(to.Relay, to.Operator, to.Publisher) })
}

// mysqlTLS is the encryption of connections to MariaDB or MySQL; if the section
// is empty, the URL decides.
func mysqlTLS(t config.TLS) (mysql.TLS, error) {
	c, err := newTLS(t, t.On())
	return mysql.TLS{Config: c, Off: t.Off()}, err
}
