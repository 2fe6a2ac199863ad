// Package foreign reads the configuration files of other systems, for the importers: .properties, YAML and .env files, with
// the placeholders, profiles, spellings and data sources that frameworks on the JVM have. It copies no secret.
package foreign
