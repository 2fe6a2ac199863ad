// Package flowcatalyst turns the configuration of FlowCatalyst's outbox
// processor, the keys outbox-processor.* of a .properties or YAML file, into
// one of Outrider's that does the same.
//
// It reads what frameworks on the JVM let people write: dotted or nested keys
// in kebab, camel or upper case, ${NAME:default} placeholders, profiles, and the
// data source whose tables are polled. It copies no secret: where one is
// written down the result names an environment variable.
//
// It is no general reader of such files: a single file is read, and what other
// sources of configuration override is not known to it.
package flowcatalyst
