package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testPlots are one of each kind.
func testPlots() []plot {
	line := curve{Name: "p99", Points: []point{{0.5, 10}, {2, 50}, {30, 99}}}
	return []plot{
		{file: "bars.svg", title: "Bars", y: "messages per second", bars: []bar{{"floor", 215492}, {"outrider", 172596}}},
		{file: "lines.svg", title: "Lines", x: "seconds", y: "ms", lines: []curve{line, {Name: "empty"}}},
		{file: "shares.svg", title: "Shares", x: "ms", y: "%", lines: []curve{line}, log: true, share: true},
		{file: "decades.svg", title: "Decades", x: "seconds", y: "ms", lines: []curve{line, {Name: "zero", Points: []point{{1, 0}}}}, log: true},
		{file: "none.svg", title: "Nothing was measured", log: true},
	}
}

func TestPlotsAreTheSameEveryTime(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), plotFolder)
	var first [][]byte
	for range 2 {
		if err := writePlots(folder, testPlots()); err != nil {
			t.Fatal(err)
		}
		for i, p := range testPlots() {
			text, err := os.ReadFile(filepath.Join(folder, p.file))
			if err != nil {
				t.Fatal(err)
			}
			if len(first) < len(testPlots()) {
				first = append(first, text)
			} else if !bytes.Equal(first[i], text) {
				t.Errorf("%s differs the second time", p.file)
			}
		}
	}
}

func TestPlotsShowWhatTheyAreGiven(t *testing.T) {
	t.Parallel()
	for _, p := range testPlots() {
		text, err := p.draw()
		if err != nil {
			t.Errorf("%s: %v", p.file, err)
			continue
		}
		words := []string{p.title, p.x, p.y}
		for _, b := range p.bars {
			words = append(words, b.name, plainNumber(b.value))
		}
		for _, l := range p.lines {
			words = append(words, l.Name)
		}
		shown := wordsOf(t, text)
		for _, w := range words {
			if !strings.Contains(shown, w) {
				t.Errorf("%s does not say %q:\n%s", p.file, w, shown)
			}
		}
		if !bytes.Contains(text, []byte("#FFFFFF")) {
			t.Errorf("%s has no ground of its own, so that it cannot be read on a dark page", p.file)
		}
	}
}

// wordsOf returns the texts of an SVG.
func wordsOf(t *testing.T, svg []byte) string {
	t.Helper()
	var b strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := token.(xml.CharData); ok {
			b.Write(c)
			b.WriteByte('\n')
		}
	}
}

// A scenario's plots have what its results have, with or without curves.
func TestEveryScenarioPlotsItsResults(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, sc := range scenarios {
		o := outcome{Name: sc.name}
		if len(o.plots()) > 0 {
			t.Errorf("%s draws what was not measured", sc.name)
		}
		o.Results = []result{{Peer: "a", Rows: 3, Rate: 5}, {Peer: "b", With: "c", Rate: 7, Curves: []curve{{Name: "x", Points: []point{{1, 2}, {2, 3}}}}}}
		for _, p := range o.plots() {
			if by, twice := files[p.file]; twice {
				t.Errorf("%s is drawn by %s and by %s", p.file, by, sc.name)
			}
			files[p.file] = sc.name
			if _, err := p.draw(); err != nil {
				t.Errorf("%s: %v", p.file, err)
			}
		}
	}
}
