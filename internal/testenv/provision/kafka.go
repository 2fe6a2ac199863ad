package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// EnvKafkaJars names a folder with a Kafka broker's jars (the folder libs of a
// Kafka distribution) and overrides the search for them.
const EnvKafkaJars = "OUTRIDER_KAFKA_JARS"

const (
	kafkaVersion = "3.9.1"
	scalaVersion = "2.13" // that Kafka was compiled with

	// javaPackage is Debian's package of the Java runtime; oldestJava is the
	// first version that will do.
	javaPackage = "openjdk-17-jre-headless"
	oldestJava  = 11
)

// Kafka has the files that start a Kafka broker.
type Kafka struct {
	Java string // the java program
	Jars string // the folder of the broker's jars

	// Archive is where this Java's archive of the broker's classes is kept, once there is one. Empty: the folder is not ours.
	Archive string
}

// Kafka returns the Java runtime and the jars of a Kafka broker.
func (h Host) Kafka(ctx context.Context) (Kafka, error) {
	java, err := h.java(ctx)
	if err != nil {
		return Kafka{}, err
	}
	jars, err := h.kafkaJars(ctx)
	if err != nil {
		return Kafka{}, err
	}
	return Kafka{Java: java, Jars: jars, Archive: archiveOf(java, jars)}, nil
}

// archiveOf returns the archive of classes for a Java and a folder of jars. Another Java does not read it.
func archiveOf(java, jars string) string {
	info, err := os.Stat(java)
	if err != nil || os.Getenv(EnvKafkaJars) != "" {
		return ""
	}
	return filepath.Join(jars, fmt.Sprintf("classes-%x.jsa", info.ModTime().Unix()))
}

// kafkaJars returns the folder of the broker's jars, downloaded when missing.
func (h Host) kafkaJars(ctx context.Context) (string, error) {
	if dir := os.Getenv(EnvKafkaJars); dir != "" {
		if !hasBroker(dir) {
			return "", fmt.Errorf("%s: %s holds no jar named kafka_*.jar", EnvKafkaJars, dir)
		}
		return dir, nil
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "kafka-"+kafkaVersion)
	if hasBroker(dir) {
		return dir, nil
	}
	if !h.Install {
		return "", fmt.Errorf("no Kafka broker found: `make test` downloads its jars with Maven, or set %s to their folder", EnvKafkaJars)
	}
	err = fill(dir, func(tmp string) error {
		what := "downloading the jars of Kafka " + kafkaVersion
		err := h.maven(ctx, what, tmp,
			artifact{"org.apache.kafka", "kafka_" + scalaVersion, kafkaVersion},
			artifact{"org.apache.kafka", "kafka-tools", kafkaVersion},
			artifact{"org.slf4j", "slf4j-simple", "1.7.36"})
		return errors.Join(err, dropLogBinding(tmp))
	})
	return dir, err
}

// dropLogBinding removes the logger that comes with the tools: slf4j, which
// takes one of those it finds, must take slf4j-simple, which needs no file to
// be configured.
func dropLogBinding(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "slf4j-reload4j-*.jar"))
	for _, jar := range found {
		err = errors.Join(err, os.Remove(jar))
	}
	return err
}

func hasBroker(dir string) bool {
	found, err := filepath.Glob(filepath.Join(dir, "kafka_*.jar"))
	return err == nil && len(found) > 0
}

// java returns the java program, installed when missing.
func (h Host) java(ctx context.Context) (string, error) {
	java, findErr := findJava(ctx)
	if findErr == nil || !h.Install {
		return java, findErr
	}
	installed, err := h.apt(ctx, javaPackage)
	if err != nil || !installed {
		return "", errors.Join(err, findErr)
	}
	return findJava(ctx)
}

// javaVersion finds the version in what `java -version` prints: "17.0.15" for
// 17, "1.8.0_412" for 8.
var javaVersion = regexp.MustCompile(`version "(\d+)`)

// findJava looks for a Java runtime that is new enough.
func findJava(ctx context.Context) (string, error) {
	candidates := []string{"java"}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		candidates = []string{filepath.Join(home, "bin", "java"), "java"}
	}
	for _, candidate := range candidates {
		path, err := exec.LookPath(candidate)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
		if err != nil {
			continue // macOS has a program of that name that only reports that Java is missing
		}
		found := javaVersion.FindSubmatch(out)
		if found == nil {
			continue
		}
		if major, err := strconv.Atoi(string(found[1])); err == nil && major >= oldestJava {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Java %d or newer found for Kafka's broker: install a Java runtime, or set JAVA_HOME to one", oldestJava)
}
