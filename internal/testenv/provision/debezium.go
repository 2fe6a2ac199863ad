package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// EnvDebezium names a folder with Kafka Connect's jars in its folder connect, and
// Debezium's connector for PostgreSQL with what it needs in plugins/debezium, and
// overrides the search for them.
const EnvDebezium = "OUTRIDER_DEBEZIUM"

// DebeziumVersion is the version of Debezium's connector for PostgreSQL, which
// runs in the Kafka Connect of [kafkaVersion].
const DebeziumVersion = "3.3.1.Final"

// Debezium has the files that start Kafka Connect with Debezium's connector for
// PostgreSQL. Their jars are in different folders, as Connect requires: they need
// different versions of the same libraries.
type Debezium struct {
	Java    string // the java program
	Connect string // the folder of Connect's jars
	Plugins string // the folder of the connector's folder
}

// Debezium returns the Java runtime, Kafka Connect, and Debezium's connector for
// PostgreSQL.
func (h Host) Debezium(ctx context.Context) (Debezium, error) {
	java, err := h.java(ctx)
	if err != nil {
		return Debezium{}, err
	}
	dir, err := h.debeziumJars(ctx)
	if err != nil {
		return Debezium{}, err
	}
	return Debezium{Java: java, Connect: filepath.Join(dir, connectFolder), Plugins: filepath.Join(dir, filepath.Dir(pluginFolder))}, nil
}

// Where the jars lie, seen from their common folder.
var (
	connectFolder = "connect"
	pluginFolder  = filepath.Join("plugins", "debezium")
)

// debeziumJars returns the folder of the jars, downloaded when missing.
func (h Host) debeziumJars(ctx context.Context) (string, error) {
	if dir := os.Getenv(EnvDebezium); dir != "" {
		if !hasDebezium(dir) {
			return "", fmt.Errorf("%s: %s does not hold connect/connect-runtime-*.jar and plugins/debezium/debezium-connector-postgres-*.jar", EnvDebezium, dir)
		}
		return dir, nil
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "debezium-"+DebeziumVersion+"-kafka-"+kafkaVersion)
	if hasDebezium(dir) {
		return dir, nil
	}
	if !h.Install {
		return "", fmt.Errorf("no Debezium found: `make bench` downloads its jars with Maven, or set %s to their folder", EnvDebezium)
	}
	err = fill(dir, func(tmp string) error {
		err := h.maven(ctx, "downloading the jars of Kafka Connect "+kafkaVersion, filepath.Join(tmp, connectFolder),
			artifact{"org.apache.kafka", "connect-runtime", kafkaVersion},
			artifact{"org.slf4j", "slf4j-simple", "1.7.36"})
		if err := errors.Join(err, dropLogBinding(filepath.Join(tmp, connectFolder))); err != nil {
			return err
		}
		return h.maven(ctx, "downloading the jars of Debezium "+DebeziumVersion, filepath.Join(tmp, pluginFolder),
			artifact{"io.debezium", "debezium-connector-postgres", DebeziumVersion})
	})
	return dir, err
}

func hasDebezium(dir string) bool {
	for _, pattern := range []string{
		filepath.Join(dir, connectFolder, "connect-runtime-*.jar"),
		filepath.Join(dir, pluginFolder, "debezium-connector-postgres-*.jar"),
	} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) == 0 {
			return false
		}
	}
	return true
}
