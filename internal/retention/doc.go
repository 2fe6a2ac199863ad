// Package retention runs the removal of rows that every route has settled: it
// asks the state store how far all routes are, has the source take steps until
// nothing more can go, and reports which routes hold rows back.
//
// What it is not: it decides about no row and knows no SQL; sources do
// ([adapters.Retainer]). It keeps nothing: what it tells is since the process began.
package retention
