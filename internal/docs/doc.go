// Package docs reads README.md and the pages of docs/, so that tests can hold
// what they say against the program: configurations, commands, links, and the
// tests that enforce the guarantees.
//
// It parses just enough Markdown for that. The test of the commands is in
// cmd/outrider, because only that package has them.
package docs
