package provision

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Downloads in round numbers, for those who wait for them.
const (
	postgresPackageSize = "about 20 MB"
	postgresMavenSize   = "about 12 MB"
	javaSize            = "about 45 MB"
	mavenSize           = "about 15 MB"
	kafkaSize           = "about 60 MB"
	mariadbPackageSize  = "about 10 MB"
	mariadbMavenSize    = "about 140 MB"
	compilerSize        = "about 120 MB"
	mongoSize           = "about 3 MB"
	redisSize           = "about 2 MB"
	pgBouncerSize       = "about 1 MB"
)

// MissingPostgres describes the installations of [Host.Postgres], each with its source
// and size. It returns nothing if no program is missing.
func (h Host) MissingPostgres(ctx context.Context) []string {
	if os.Getenv(EnvPostgresBin) != "" {
		return nil
	}
	if _, ok := findPostgres(ctx); ok {
		return nil
	}
	if hasApt() {
		return []string{"PostgreSQL: package postgresql, with apt, " + postgresPackageSize}
	}
	return append(missingMaven(), "PostgreSQL "+zonkyVersion+": from Maven Central"+intoCache()+", "+postgresMavenSize)
}

// MissingKafka is [Host.MissingPostgres] for [Host.Kafka].
func (h Host) MissingKafka(ctx context.Context) (missing []string) {
	if _, err := findJava(ctx); err != nil && hasApt() {
		missing = append(missing, "a Java runtime: package "+javaPackage+", with apt, "+javaSize)
	}
	if os.Getenv(EnvKafkaJars) != "" {
		return missing
	}
	if cache, err := cacheDir(); err == nil && hasBroker(filepath.Join(cache, "kafka-"+kafkaVersion)) {
		return missing
	}
	return append(append(missing, missingMaven()...), "the jars of Kafka "+kafkaVersion+": from Maven Central"+intoCache()+", "+kafkaSize)
}

// MissingMariaDB is [Host.MissingPostgres] for [Host.MariaDB].
func (h Host) MissingMariaDB(ctx context.Context) []string {
	if os.Getenv(EnvMariaDB) != "" {
		return nil
	}
	if _, ok := findMariaDB(ctx); ok {
		return nil
	}
	if hasApt() {
		return []string{"MariaDB: packages " + strings.Join(mariadbPackages, " and ") + ", with apt, " + mariadbPackageSize}
	}
	return append(missingMaven(), "MariaDB "+mariadb4jVersion+": from Maven Central"+intoCache()+", "+mariadbMavenSize)
}

// missingMaven lists the missing tools for downloads from Maven Central.
func missingMaven() []string {
	if _, err := exec.LookPath("mvn"); err == nil || !hasApt() {
		return nil
	}
	return []string{"Maven: package maven, with apt, " + mavenSize}
}

func intoCache() string {
	dir, err := cacheDir()
	if err != nil {
		return ""
	}
	return ", into " + dir
}
