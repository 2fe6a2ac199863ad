package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// memoryLeast is the free memory that a database needs: a run of the tests takes up
// to half of it.
const memoryLeast = 3 << 30

// kind says how a server is had.
type kind struct {
	name     string
	variable string
	start    func(ctx context.Context, host provision.Host, with settings) (started, string, error)
	// find looks for the server's programs, for tests that start their own.
	find func(ctx context.Context, host provision.Host) error
	// missing says what would be installed for the server.
	missing func(host provision.Host, ctx context.Context) []string
}

var kinds = []kind{
	{"PostgreSQL", testenv.EnvPostgres, startPostgres, func(ctx context.Context, host provision.Host) error {
		_, err := host.Postgres(ctx)
		return err
	}, provision.Host.MissingPostgres},
	{"MariaDB", testenv.EnvMySQL, startMariaDB, func(ctx context.Context, host provision.Host) error {
		_, err := host.MariaDB(ctx)
		return err
	}, provision.Host.MissingMariaDB},
	{"Kafka", testenv.EnvKafka, startKafka, func(ctx context.Context, host provision.Host) error {
		_, err := host.Kafka(ctx)
		return err
	}, provision.Host.MissingKafka},
	{"MongoDB", testenv.EnvMongoDB, startMongoDB, func(ctx context.Context, host provision.Host) error {
		_, err := host.MongoDB(ctx)
		return err
	}, provision.Host.MissingMongoDB},
	{"RabbitMQ", testenv.EnvRabbitMQ, startRabbitMQ, func(ctx context.Context, host provision.Host) error {
		_, err := host.RabbitMQ(ctx)
		return err
	}, provision.Host.MissingRabbitMQ},
	{"Redis", testenv.EnvRedis, startRedis, func(ctx context.Context, host provision.Host) error {
		_, err := host.Redis(ctx)
		return err
	}, provision.Host.MissingRedis},
}

// kindsNamed returns the kinds of servers with these names, separated by commas; all without names.
func kindsNamed(list string) ([]kind, error) {
	if list == "" {
		return kinds, nil
	}
	var out []kind
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(kinds, func(k kind) bool { return strings.EqualFold(k.name, name) })
		if i < 0 {
			var all []string
			for _, k := range kinds {
				all = append(all, k.name)
			}
			return nil, fmt.Errorf("-servers %s: no server %q; there are %s", list, name, strings.Join(all, ", "))
		}
		out = append(out, kinds[i])
	}
	return out, nil
}

func startPostgres(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	bin, err := host.Postgres(ctx)
	if err != nil {
		return nil, "", err
	}
	opts := server.PostgresOptions{Bin: bin, Keep: with.keep, Logical: with.logical, KeepTemplate: true}
	if with.brief {
		opts.Folder = server.MemoryFolder(memoryLeast)
	}
	s, err := server.StartPostgres(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	return s, s.URL(), os.Setenv(testenv.EnvPostgresTemplate, s.Template())
}

func startMariaDB(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	found, err := host.MariaDB(ctx)
	if err != nil {
		return nil, "", err
	}
	opts := server.MariaDBOptions{Program: found.Program, Share: found.Share, Keep: with.keep}
	if !with.brief { // a measured server must have enough memory for its table
		opts.Settings = []string{"innodb-buffer-pool-size=1G", "innodb-log-file-size=512M"}
	}
	if with.brief {
		opts.Folder = server.MemoryFolder(memoryLeast)
	}
	s, err := server.StartMariaDB(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	return s, s.URL(), nil
}

func startKafka(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	found, err := host.Kafka(ctx)
	if err != nil {
		return nil, "", err
	}
	s, err := server.StartKafka(ctx, server.KafkaOptions{
		Java: found.Java, Jars: found.Jars, Archive: found.Archive, Keep: with.keep, Brief: with.brief,
	})
	if err != nil {
		return nil, "", err
	}
	return s, strings.Join(s.Brokers(), ","), nil
}

func startMongoDB(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	found, err := host.MongoDB(ctx)
	if err != nil {
		return nil, "", err
	}
	s, err := server.StartMongoDB(ctx, server.MongoOptions{Java: found.Java, Jars: found.Jars, Class: provision.MongoClass, Keep: with.keep})
	if err != nil {
		return nil, "", err
	}
	return s, s.URL(), nil
}

func startRabbitMQ(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	sbin, err := host.RabbitMQ(ctx)
	if err != nil {
		return nil, "", err
	}
	s, err := server.StartRabbitMQ(ctx, server.RabbitOptions{Scripts: sbin, Keep: with.keep})
	if err != nil {
		return nil, "", err
	}
	return s, s.URL(), nil
}

func startRedis(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	program, err := host.Redis(ctx)
	if err != nil {
		return nil, "", err
	}
	opts := server.RedisOptions{Program: program, Keep: with.keep}
	if with.brief {
		opts.Settings = []string{"appendonly no"}
	}
	s, err := server.StartRedis(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	return s, s.Address(), nil
}
