// Package pages tests the dashboard in a real browser; its tests are all that it has.
package pages
