// Package docs reads README.md and the pages of docs/, so that tests can hold
// what they say against the program: configurations, commands, links, and the
// tests that enforce the guarantees.
//
// It knows just enough Markdown for that, and nothing of what the pages are about.
// The test of the commands stands in cmd/outrider, because only that has them;
// all others stand here.
package docs
