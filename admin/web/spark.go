package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/outriderhq/outrider/admin/console"
)

// A sparkline has at most 60 bars, of 10 s to a minute each.
const (
	sparkBars   = 60
	sparkWidth  = 120
	sparkHeight = 28
	perMinute   = int(time.Minute / console.HistoryStep)
)

// span is how far back sparklines and charts reach: to the begin of the process, at most an hour.
func span(points int) time.Duration { return time.Duration(points) * console.HistoryStep }

// spark draws what was delivered since the process began, whole points ago. Its text is for those who do not see it.
func spark(points []console.Point, whole int) template.HTML {
	perBar := max((whole+sparkBars-1)/sparkBars, 1)
	bars := make([]float64, max((whole+perBar-1)/perBar, 2))
	highest := 0.0
	for i := range points {
		at := len(bars) - 1 - (len(points)-1-i)/perBar
		if at < 0 {
			continue
		}
		bars[at] += float64(points[i].Delivered)
		highest = max(highest, bars[at])
	}
	var line strings.Builder
	step := float64(sparkWidth) / float64(len(bars)-1)
	for i, v := range bars {
		y := float64(sparkHeight - 2)
		if highest > 0 {
			y -= v / highest * (sparkHeight - 4)
		}
		fmt.Fprintf(&line, "%.4g,%.3g ", float64(i)*step, y)
	}
	text := "Delivered in the last " + duration(span(whole)) + ": at most " + rate(highest/float64(perBar)/console.HistoryStep.Seconds()) + " a second"
	//nolint:gosec // numbers and a text of ours
	return template.HTML(fmt.Sprintf(`<svg class="spark" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`+
		`<polygon points="0,%d %s%d,%d"/><polyline points="%s"/></svg>`,
		sparkWidth, sparkHeight, text, sparkHeight, line.String(), sparkWidth, sparkHeight, line.String()))
}
