// Package seeds has the tests that execute the documents of the five systems that Outrider can replace: their tables, statements, commands and
// configurations as the documents have them, one file for each document. Faults and loads of the same systems are elsewhere: see the packages
// adapters/..., internal/faults and the root.
package seeds
