// Package deploy has what operators take to run Outrider: packages, an image, a chart, alerts, a dashboard. Its tests build each, and try it
// with the programs that read it.
package deploy
