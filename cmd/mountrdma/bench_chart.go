package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/loadgen"
)

// took returns a time in microseconds in words.
func took(us float64) string {
	switch {
	case us < 1e3:
		return fmt.Sprintf("%.1f µs", us)
	case us < 1e6:
		return fmt.Sprintf("%.2f ms", us/1e3)
	}
	return fmt.Sprintf("%.2f s", us/1e6)
}

// A chart is the picture of latencies, and the table beside it. Horizontal places
// are parts of the width in percent, so that the letters keep their size in a narrow window.
type chart struct {
	Bars  []chartBar
	Ticks []tick
	Marks []mark
	low   float64 // logarithm of the first bar's From
	high  float64 // of the last bar's To
}

type chartBar struct {
	From, To  float64 // µs
	Calls     int64
	Part, So  float64 // of all calls; up to here
	X, Width  string
	Y, Height string // pixels
}

// A tick is a round time below the picture.
type tick struct{ X, Label, Anchor string }

// A mark is the line of a quantile.
type mark struct {
	X, Label, Anchor string
	DX, Y            int // pixels
}

// chartHeight is the height in pixels of the highest bar.
const chartHeight = 160

// newChart returns the chart of bars, which may be none.
func newChart(bars []loadgen.Bar, l *latency) *chart {
	c := new(chart)
	if len(bars) == 0 {
		return c
	}
	c.low, c.high = math.Log10(max(micro(bars[0].From), 1e-3)), math.Log10(micro(bars[len(bars)-1].To))
	var all, so int64
	var densest float64
	for _, b := range bars {
		all += b.Calls
		densest = max(densest, c.density(b))
	}
	for _, b := range bars {
		if b.Calls == 0 {
			continue
		}
		so += b.Calls
		from, to := micro(b.From), micro(b.To)
		height := max(chartHeight*c.density(b)/densest, 1) // one call in a million shows
		c.Bars = append(c.Bars, chartBar{
			From: from, To: to, Calls: b.Calls, Part: float64(b.Calls) / float64(all), So: float64(so) / float64(all),
			X: c.at(from), Width: percent(c.width(b)), Y: fmt.Sprintf("%.1f", chartHeight-height), Height: fmt.Sprintf("%.1f", height),
		})
	}
	c.ticks()
	c.marks(l)
	return c
}

// width returns the width of a bar. Bars differ in width, so that their areas, not their
// heights, show the calls.
func (c *chart) width(b loadgen.Bar) float64 { return c.place(micro(b.To)) - c.place(micro(b.From)) }

func (c *chart) density(b loadgen.Bar) float64 { return float64(b.Calls) / max(c.width(b), 1e-3) }

// ticks marks the powers of ten, and what is between them if those are few.
func (c *chart) ticks() {
	steps := []float64{1}
	if c.high-c.low < 2 {
		steps = []float64{1, 2, 5}
	}
	for power := math.Floor(c.low); power <= c.high; power++ {
		for _, step := range steps {
			if us := step * math.Pow(10, power); math.Log10(us) >= c.low && math.Log10(us) <= c.high {
				mark := tick{X: c.at(us), Label: unit(us), Anchor: "middle"}
				switch at := c.place(us); { // letters beyond the edges would not show
				case at < 5:
					mark.Anchor = "start"
				case at > 95:
					mark.Anchor = "end"
				}
				c.Ticks = append(c.Ticks, mark)
			}
		}
	}
}

// marks marks the quantiles. Each label has a line of its own, for they may be close.
func (c *chart) marks(l *latency) {
	for i, q := range []struct {
		name string
		us   float64
	}{{"median", l.P50}, {"95 %", l.P95}, {"99 %", l.P99}} {
		m := mark{X: c.at(q.us), Label: q.name + " " + took(q.us), Anchor: "start", DX: 4, Y: i * 18}
		if c.place(q.us) > 60 {
			m.Anchor, m.DX = "end", -4
		}
		c.Marks = append(c.Marks, m)
	}
}

// place returns the place of a time in microseconds.
func (c *chart) place(us float64) float64 {
	return 100 * min(max((math.Log10(max(us, 1e-3))-c.low)/(c.high-c.low), 0), 1)
}

// at is place as SVG has it.
func (c *chart) at(us float64) string { return percent(c.place(us)) }

func percent(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) + "%" }

// unit returns a round time in microseconds in words.
func unit(us float64) string {
	return time.Duration(math.Round(us * 1e3)).String()
}
