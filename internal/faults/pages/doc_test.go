// Package pages tests the dashboard in a real browser: every action by a click, its effect
// in the database, and what a screen reader and a narrow screen get.
package pages
