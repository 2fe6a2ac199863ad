package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/outriderhq/outrider/admin"
)

// Bars of a sparkline: 60 of 10 s to a minute each, as far back as there is something.
const (
	sparkBars   = 60
	sparkWidth  = 120
	sparkHeight = 28
	perMinute   = int(time.Minute / admin.HistoryStep)
)

// span is how far back sparklines and charts reach: 10 minutes to an hour.
func span(points int) (perBar int, d time.Duration) {
	perBar = min(max((points+sparkBars-1)/sparkBars, 1), admin.HistoryPoints/sparkBars)
	return perBar, time.Duration(perBar*sparkBars) * admin.HistoryStep
}

// spark draws what was delivered lately. Its text is for those who do not see it.
func spark(points []admin.Point) template.HTML {
	perBar, back := span(len(points))
	var bars [sparkBars]float64
	highest := 0.0
	for i := range points {
		at := sparkBars - 1 - (len(points)-1-i)/perBar
		if at < 0 {
			continue
		}
		bars[at] += float64(points[i].Delivered)
		highest = max(highest, bars[at])
	}
	var line strings.Builder
	const step = float64(sparkWidth) / (sparkBars - 1)
	for i, v := range bars {
		y := float64(sparkHeight - 2)
		if highest > 0 {
			y -= v / highest * (sparkHeight - 4)
		}
		fmt.Fprintf(&line, "%.4g,%.3g ", float64(i)*step, y)
	}
	text := "Delivered in the last " + duration(back) + ": at most " + rate(highest/float64(perBar)/admin.HistoryStep.Seconds()) + " a second"
	//nolint:gosec // numbers and a text of ours
	return template.HTML(fmt.Sprintf(`<svg class="spark" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`+
		`<polygon points="0,%d %s%d,%d"/><polyline points="%s"/></svg>`,
		sparkWidth, sparkHeight, text, sparkHeight, line.String(), sparkWidth, sparkHeight, line.String()))
}
