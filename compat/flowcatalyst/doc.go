// Package flowcatalyst turns the configuration of FlowCatalyst's outbox
// processor, the keys outbox-processor.* of a .properties or YAML file, into
// one of Outrider's that does the same.
//
// It reads the forms that frameworks on the JVM accept: dotted or nested keys
// in kebab, camel or upper case, ${NAME:default} placeholders, profiles, and the
// data source whose tables are polled. It copies no secret: where one is
// written down the result names an environment variable.
// Of FlowCatalyst's current programs it reads a file of the environment with their variables FC_OUTBOX_....
//
// It is not a general reader of such files: it reads a single file, without the
// other sources of configuration that may override it.
package flowcatalyst
