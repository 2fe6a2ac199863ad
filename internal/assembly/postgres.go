package assembly

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/logtable"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/adapters/postgres/statestore"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router"
)

// postgresTable is a source in PostgreSQL: a table of Outrider's own, one of others or
// a queue.
type postgresTable struct {
	site
	*config.Postgres
}

// postgresSource is the kind of a source in PostgreSQL.
func postgresSource(at site, s *config.Postgres) SourceKind {
	t := postgresTable{at, s}
	if s.ByWatermillSQL() {
		return SourceKind{Pools: true, Leader: s.Leader, Open: t.openWatermillSQL, InitSQL: t.offsetsSQL}
	}
	k := SourceKind{Pools: true, Log: !s.Queued(), Queue: s.Queued(), Leader: s.Leader,
		Open: t.open, Init: t.init, InitSQL: t.initSQL, Publish: t.publish, Retention: t.retention()}
	k.Hot = s.Layout == "outrider"
	if preset := s.Preset(); preset != nil {
		k.Hot = preset.Hot && s.HotPath.Queue > 0
	}
	if s.Leader && s.LeaderLock != 0 {
		k.Lock = t.lock
	}
	if s.Layout != "outrider" {
		k.Indexes = t.indexes
	}
	if s.Progress != "" {
		k.Progress = t.progressTable
	}
	if s.Notified() {
		k.Wake, k.WakeSQL = t.wake, t.wakeSQL
	}
	return k
}

func (t postgresTable) open(ctx context.Context) (Feed, error) {
	to, err := t.Options.toSource(t.name, t.Postgres)
	if err != nil {
		return Feed{}, err
	}
	f := Feed{poll: t.Poll}
	switch {
	case t.Queued():
		return t.openQueue(ctx, to)
	case t.Layout == "outrider":
		f.Source, err = owntable.New(ctx, owntable.Config{URL: to.url, TLS: to.tls, Config: to.config, Table: string(t.Table),
			Wake: postgres.Wake(t.Wake), Logger: t.log, MaxRow: int64(t.MaxRow)})
	default:
		cfg := t.logTable()
		cfg.URL, cfg.TLS, cfg.Config = to.url, to.tls, to.config
		cfg.Wake, cfg.Logger, cfg.MaxRow = postgres.Wake(t.Wake), t.log, int64(t.MaxRow)
		f.Source, err = logtable.New(ctx, cfg)
	}
	if err != nil {
		return Feed{}, err // a nil pointer in an interface is no source
	}
	return f, nil
}

func (t postgresTable) openQueue(ctx context.Context, to connection) (f Feed, err error) {
	cfg := t.queue()
	cfg.URL, cfg.TLS, cfg.Config = to.url, to.tls, to.config
	cfg.Wake, cfg.Logger = postgres.Wake(t.Wake), t.log
	if cfg.Layout.Claimless() {
		if cfg.Fence, err = t.fence(to); err != nil {
			return f, err
		}
	}
	queue, err := queuetable.New(ctx, cfg)
	if err != nil {
		return f, err
	}
	f = queueFeed(&t.TableSource, len(cfg.Tables), queue)
	if preset := t.Preset(); preset != nil && preset.Hot {
		f.hot = router.Hot{Capacity: t.HotPath.Queue, SkipRecent: t.HotPath.SkipRecent.Std()}
	}
	return f, nil
}

// fence is where a queue without claims asks for the epochs of lanes: in the state store, if that is in its database.
func (t postgresTable) fence(source connection) (f queuetable.Fence, err error) {
	location, err := t.stateLocation(t.name)
	if err != nil || !postgresDatabase.owns(location) {
		return f, err
	}
	state, err := t.Options.toState(t.Config, location)
	if err != nil {
		return f, err
	}
	f.Here, err = sameDatabase(source, state)
	f.Schema = t.Config.State.Schema.Exact()
	return f, err
}

func (t postgresTable) lock(ctx context.Context) (leaderLock, error) {
	to, err := t.Options.toSource(t.name, t.Postgres)
	if err != nil {
		return nil, err
	}
	return statestore.NewLeaderLock(ctx, statestore.LeaderConfig{URL: to.url, TLS: to.tls, Config: to.config, Key: int64(t.LeaderLock)})
}

func (t postgresTable) init(ctx context.Context) ([]string, error) {
	pool, err := t.Options.openPostgres(ctx, t.name, t.Postgres)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if t.Queued() {
		cfg := t.queue()
		return queuetable.Init(ctx, pool, cfg.Layout, t.Preset() != nil, cfg.Tables...)
	}
	if t.Layout != "outrider" {
		return logtable.Init(ctx, pool, t.logTable())
	}
	if rows := t.partitionRows(); rows > 0 {
		return owntable.InitPartitioned(ctx, pool, string(t.Table), rows)
	}
	return owntable.Init(ctx, pool, string(t.Table))
}

func (t postgresTable) initSQL(to Grantees) string {
	if t.Queued() {
		cfg := t.queue()
		return queuetable.InitSQL(cfg.Layout, t.Preset() != nil, cfg.Tables...) + "\n" +
			queuetable.Grants(cfg.Layout, cfg.Tables...).SQL(to)
	}
	if t.Layout == "outrider" {
		text, mode := owntable.InitSQL(string(t.Table)), adapters.RetentionMode("")
		if t.Retention != nil {
			mode = adapters.RetentionMode(t.Retention.Mode)
		}
		if rows := t.partitionRows(); rows > 0 {
			text = owntable.InitPartitionedSQL(string(t.Table), rows)
		}
		return text + "\n" + owntable.Grants(string(t.Table), mode).SQL(to)
	}
	text, err := logtable.InitSQL(t.logTable())
	var grants postgres.Grants
	if err == nil {
		grants, err = logtable.Grants(t.logTable())
	}
	if err != nil {
		return asComment(err)
	}
	return text + "\n" + grants.SQL(to) + t.offsetsSQL(to) + t.progressSQL(to)
}

// offsetsSQL are the grants on watermill-sql's table of offsets, where it is made use of.
func (t postgresTable) offsetsSQL(to Grantees) string {
	if t.Group == "" && t.Offsets == "" && !t.ByWatermillSQL() && !t.startsAtOffsets() {
		return ""
	}
	grants, err := logtable.OffsetsGrants(t.logTable(), t.ByWatermillSQL())
	if err != nil {
		return asComment(err)
	}
	return "-- watermill-sql's table of offsets (client: watermill, start: offsets, seek --to offsets):\n" + grants.SQL(to)
}

// startsAtOffsets reports whether a route begins behind what a consumer group has acknowledged.
func (t postgresTable) startsAtOffsets() bool {
	for i := range t.Config.Routes {
		if r := &t.Config.Routes[i]; r.From == t.name && r.Start.Kind == "offsets" {
			return true
		}
	}
	return false
}

// asComment is the error of a table's name in place of its statements. It does not
// come from a configuration that was checked.
func asComment(err error) string {
	return "-- " + strings.Join(strings.Fields(err.Error()), " ") + "\n"
}

func (t postgresTable) indexes(ctx context.Context, onProgress func(string)) ([]string, error) {
	pool, err := t.Options.openPostgres(ctx, t.name, t.Postgres)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if t.Queued() {
		cfg := t.queue()
		return queuetable.InitIndexes(ctx, pool, cfg.Layout, onProgress, cfg.Tables...)
	}
	return logtable.InitIndexes(ctx, pool, t.logTable(), onProgress)
}

func (t postgresTable) wake(ctx context.Context) ([]string, error) {
	tables, err := t.tables()
	if err != nil {
		return nil, err
	}
	pool, err := t.Options.openPostgres(ctx, t.name, t.Postgres)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return postgres.InitWake(ctx, pool, tables...)
}

func (t postgresTable) wakeSQL() string {
	tables, err := t.tables()
	if err != nil {
		return asComment(err)
	}
	return postgres.InitWakeSQL(tables...)
}

func (t postgresTable) publish(ctx context.Context, messages []outbox.Envelope) error {
	if t.Layout != "outrider" {
		return notOwnTable(t.Layout)
	}
	pool, err := t.Options.openPostgres(ctx, t.name, t.Postgres)
	if err != nil {
		return err
	}
	defer pool.Close()
	table, err := postgres.Locate(ctx, pool, string(t.Table))
	if err != nil {
		return err
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Table: strings.Join(table, "."), Dialect: outbox.PostgreSQL})
	if err != nil {
		return err
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := client.Publish(ctx, tx, messages...); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

// notOwnTable refuses to write to a table of an application's layout.
func notOwnTable(layout string) error {
	return fmt.Errorf("its table has layout %s: write to it as the application does", layout)
}
