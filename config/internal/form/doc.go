// Package form reads a YAML file into structs whose tags declare the keys (see package config), or reports all mistakes,
// each with its location and a fix. It knows no key: a [Declaration] has the structs, and the [Registry]s of their kinds.
//
//	read, reader   the YAML library's tree becomes nodes, with variables inserted and aliases followed
//	decode, lists  a [Checker] fills structs from nodes and checks what tags can say
//	scalars        [Duration], [Size], [Rate], [Secret], [SecretURL] and [File], which are written as one text
//	excerpt        the line of a mistake, in which everything that may be secret is masked
//	schema         the JSON Schema
//	redact, writer configurations back to text: for people, and for [Checker.Decode]
//
// It imports nothing of ours.
package form
