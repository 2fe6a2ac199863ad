// Package admin is for operating relays. Its packages:
//
//   - [github.com/outriderhq/outrider/admin/operate]: the operator's commands, which work on tables and state from any process.
//   - [github.com/outriderhq/outrider/admin/status]: the state of a route and its cause.
//   - [github.com/outriderhq/outrider/admin/doctor]: checks of everything that a configuration needs.
//   - [github.com/outriderhq/outrider/admin/console]: what a running relay keeps for its operators.
//   - [github.com/outriderhq/outrider/admin/server]: the HTTP server of a relay, with authentication.
//   - [github.com/outriderhq/outrider/admin/action]: the list of what operators can change.
//   - [github.com/outriderhq/outrider/admin/api] and [github.com/outriderhq/outrider/admin/web]: what it answers.
package admin
