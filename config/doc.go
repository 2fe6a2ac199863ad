// Package config turns one YAML file into a checked, typed configuration, or
// reports all mistakes in it, each with its location and a fix.
//
// The structs of this package are the only declaration of the configuration.
// Their tags drive the decoder, the defaults, the checks, the JSON Schema
// ([Schema]), the reference page and the printed form
// ([Config.Redacted]):
//
//	yaml      key in the file; ",key" marks the field that holds the mapping's key, ",inline" a struct whose keys the
//	          blank fields of type form.Key name: in order, with tags that go before those of the inlined struct
//	doc       one or two sentences for the schema and the reference page
//	default   as it would be written in the file
//	enum      the allowed values, separated by |
//	min, max  bounds of a number, duration or size; of a list, its length
//	required  "true" when the key must be given
//	scalar    "true" on the one field that may be written in place of its struct
//	single    "true" for a list that may be written as its only item
//	file      "lines" for a list of secrets that is read from the named file
//
// A field of type [Secret] or [SecretURL] can be given as KEY or as KEY_file.
// A new kind of source, destination or middleware is one struct and one line
// in its registry. The decoder is package form.
//
// It opens no connection, runs nothing and imports no package of the
// relay. It reads the file that it is given, and the files that *_file keys
// name; relative paths start at the working directory.
package config
