package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	gonum "gonum.org/v1/plot"
)

// Sizes of a plot.
const (
	plotWidth  = 8 * vg.Inch
	plotHeight = 4 * vg.Inch
	plotMargin = 12
	barWidth   = 40
	lineWidth  = 1.5
)

// palette has colours that people with red-green blindness can distinguish.
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0x55, 0x55, 0x55, 0xff}, color.RGBA{0x80, 0x00, 0x40, 0xff},
}

// draw returns the plot as SVG with a white background, readable on light and on
// dark pages.
func (p *plot) draw() ([]byte, error) {
	g := gonum.New()
	g.Title.Text, g.X.Label.Text, g.Y.Label.Text = p.title, p.x, p.y
	sans := []*font.Font{&g.Title.TextStyle.Font, &g.X.Label.TextStyle.Font, &g.Y.Label.TextStyle.Font, &g.X.Tick.Label.Font, &g.Y.Tick.Label.Font,
		&g.Legend.TextStyle.Font}
	for _, f := range sans {
		f.Variant = "Sans"
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xdd}, color.Gray{0xdd}
	g.Add(grid)
	var err error
	if len(p.bars) > 0 {
		grid.Vertical.Width = 0
		err = p.addBars(g)
	} else {
		err = p.addLines(g)
	}
	if err != nil {
		return nil, err
	}
	to, err := draw.NewFormattedCanvas(plotWidth, plotHeight, "svg")
	if err != nil {
		return nil, err
	}
	canvas := draw.New(to)
	canvas.FillPolygon(color.White, canvas.ClipPolygonXY(corners(canvas)))
	g.Draw(draw.Crop(canvas, plotMargin, -plotMargin, plotMargin, -plotMargin))
	var out bytes.Buffer
	_, err = to.WriteTo(&out)
	return out.Bytes(), err
}

func corners(c draw.Canvas) []vg.Point {
	return []vg.Point{c.Min, {X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}}
}

// addBars draws the bars, each with its value above it.
func (p *plot) addBars(g *gonum.Plot) error {
	names, values := make([]string, len(p.bars)), make(plotter.Values, len(p.bars))
	labels := plotter.XYLabels{XYs: make(plotter.XYs, len(p.bars)), Labels: make([]string, len(p.bars))}
	most := 0.0
	for i, b := range p.bars {
		names[i], values[i] = b.name, b.value
		labels.XYs[i], labels.Labels[i] = plotter.XY{X: float64(i), Y: b.value}, fmt.Sprintf("%.0f", b.value)
		most = max(most, b.value)
	}
	bars, err := plotter.NewBarChart(values, barWidth)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width = palette[0], 0
	texts, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	for i := range texts.TextStyle {
		texts.TextStyle[i].Font.Variant = "Sans"
		texts.TextStyle[i].XAlign = draw.XCenter
	}
	texts.Offset.Y = 3
	g.Add(bars, texts)
	g.NominalX(names...)
	g.X.Min, g.X.Max = -0.6, float64(len(p.bars))-0.4
	g.Y.Min, g.Y.Max = 0, max(1.1*most, 1)
	g.Y.Tick.Marker = plainTicks{}
	return nil
}

// addLines draws the lines, each in a colour of its own.
func (p *plot) addLines(g *gonum.Plot) error {
	least, most := math.Inf(1), 0.0 // of the axis that may be logarithmic
	for i, c := range p.lines {
		points := make(plotter.XYs, len(c.Points))
		for n, at := range c.Points {
			points[n] = plotter.XY{X: at[0], Y: at[1]}
			scaled := &points[n].Y
			if p.share {
				scaled = &points[n].X
			}
			if p.log {
				*scaled = max(*scaled, leastShown)
			}
			least, most = min(least, *scaled), max(most, *scaled)
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color, line.Width = palette[i%len(palette)], lineWidth
		if i >= len(palette) {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		g.Add(line)
		g.Legend.Add(c.Name, line)
	}
	g.Legend.Top = !p.share
	g.X.Tick.Marker, g.Y.Tick.Marker = plainTicks{}, plainTicks{}
	if !p.log {
		g.Y.Min, g.Y.Max = 0, 1.25*max(most, leastShown) // room for the legend
		return nil
	}
	axis := &g.Y
	if p.share {
		axis, g.Y.Min, g.Y.Max = &g.X, 0, 100
	}
	axis.Scale, axis.Tick.Marker = gonum.LogScale{}, decades{}
	if most > 0 {
		axis.Min, axis.Max = math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most)))
	}
	if axis.Max <= axis.Min {
		axis.Max = 10 * axis.Min
	}
	return nil
}

// leastShown is the least value on a logarithmic axis, in milliseconds.
const leastShown = 0.01

// plainTicks writes 100000, not 1e+05.
type plainTicks struct{}

// Ticks implements [gonum.Ticker].
func (plainTicks) Ticks(least, most float64) []gonum.Tick {
	ticks := gonum.DefaultTicks{}.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = plainNumber(ticks[i].Value)
		}
	}
	return ticks
}

// decades has a label at 1, 2 and 5 of every power of ten.
type decades struct{}

// Ticks implements [gonum.Ticker].
func (decades) Ticks(least, most float64) (out []gonum.Tick) {
	for power := math.Floor(math.Log10(least)); power <= math.Ceil(math.Log10(most)); power++ {
		for _, step := range []float64{1, 2, 5} {
			if v := step * math.Pow(10, power); v >= least*0.999 && v <= most*1.001 {
				out = append(out, gonum.Tick{Value: v, Label: plainNumber(v)})
			}
		}
	}
	return out
}

// plainNumber has as many digits as it needs.
func plainNumber(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}
