package outrider

import (
	"os"

	"github.com/outriderhq/outrider/config"
)

// Config is the typed configuration; package config documents its fields.
type Config = config.Config

// LoadConfig reads and checks a configuration file. Variables come from the
// process's environment. The error lists all mistakes of the file, each with its
// location and a fix: a [*config.Errors].
func LoadConfig(path string) (*Config, error) { return config.Load(path, os.LookupEnv) }

// ParseConfig is [LoadConfig] for text in memory; name stands for the file in
// errors.
func ParseConfig(name string, text []byte) (*Config, error) {
	return config.Parse(name, text, os.LookupEnv)
}

// NewConfig completes and checks a configuration built in Go, by the rules of the
// file; see [config.Build].
//
//	cfg, err := outrider.NewConfig(outrider.Config{
//		Sources:      map[string]config.Source{"app": &config.Postgres{URL: config.NewSecretURL(url)}},
//		Destinations: map[string]config.Destination{"bus": &config.Kafka{Brokers: brokers, Topic: "orders"}},
//		Routes:       []config.Route{{Name: "orders", From: "app", Targets: []string{"bus"}}},
//	})
func NewConfig(cfg Config) (*Config, error) { return config.Build(cfg) }
