// Package web is the dashboard: pages that show what a relay does and offer what the API
// can, made on the server with html/template.
//
// Every page can be read and every action done without JavaScript: links lead to a page that
// shows what an action will touch, and its form does it. The one script refreshes the parts
// of a page that are marked data-live, and draws the charts.
//
// What a page asks of a database is bounded by a limit, whatever has accumulated there.
// Names, errors and payloads come from others: templates escape them, and the
// Content-Security-Policy allows this package's own files alone.
package web
