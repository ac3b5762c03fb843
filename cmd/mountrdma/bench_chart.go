package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/loadgen"
)

// formatMicros formats a time in microseconds.
func formatMicros(us float64) string {
	switch {
	case us < 1e3:
		return fmt.Sprintf("%.1f µs", us)
	case us < 1e6:
		return fmt.Sprintf("%.2f ms", us/1e3)
	}
	return fmt.Sprintf("%.2f s", us/1e6)
}

// A latencyChart is a histogram of latencies, and the table next to it. Horizontal
// positions are percentages of the width, so that labels keep their size in a narrow window.
type latencyChart struct {
	Bars    []chartBar
	Ticks   []axisTick
	Marks   []quantileMark
	logLow  float64 // log10 of the first bar's From
	logHigh float64 // log10 of the last bar's To
}

type chartBar struct {
	From, To  float64 // µs
	Calls     int64
	Part, So  float64 // share of all calls; cumulative share
	X, Width  string
	Y, Height string // pixels
}

// An axisTick labels a round time below the bars.
type axisTick struct{ X, Label, Anchor string }

// A quantileMark is the vertical line at a quantile.
type quantileMark struct {
	X, Label, Anchor string
	DX, Y            int // pixels
}

// chartHeight is the height of the highest bar in pixels.
const chartHeight = 160

// newLatencyChart returns a chart of bars, which may be empty.
func newLatencyChart(bars []loadgen.Bar, l *latencyResult) *latencyChart {
	c := new(latencyChart)
	if len(bars) == 0 {
		return c
	}
	c.logLow, c.logHigh = math.Log10(max(toMicros(bars[0].From), 1e-3)), math.Log10(toMicros(bars[len(bars)-1].To))
	var all, so int64
	var densest float64
	for _, b := range bars {
		all += b.Calls
		densest = max(densest, c.barDensity(b))
	}
	for _, b := range bars {
		if b.Calls == 0 {
			continue
		}
		so += b.Calls
		from, to := toMicros(b.From), toMicros(b.To)
		height := max(chartHeight*c.barDensity(b)/densest, 1) // even one call in a million is visible
		c.Bars = append(c.Bars, chartBar{
			From: from, To: to, Calls: b.Calls, Part: float64(b.Calls) / float64(all), So: float64(so) / float64(all),
			X: c.svgX(from), Width: formatPercent(c.barWidth(b)), Y: fmt.Sprintf("%.1f", chartHeight-height), Height: fmt.Sprintf("%.1f", height),
		})
	}
	c.addTicks()
	c.addMarks(l)
	return c
}

// barWidth returns the width of a bar. Widths differ, so that the area of a bar, not its
// height, is proportional to its calls.
func (c *latencyChart) barWidth(b loadgen.Bar) float64 {
	return c.percentAt(toMicros(b.To)) - c.percentAt(toMicros(b.From))
}

func (c *latencyChart) barDensity(b loadgen.Bar) float64 {
	return float64(b.Calls) / max(c.barWidth(b), 1e-3)
}

// addTicks labels the powers of ten, and also 2 and 5 times these if they are few.
func (c *latencyChart) addTicks() {
	steps := []float64{1}
	if c.logHigh-c.logLow < 2 {
		steps = []float64{1, 2, 5}
	}
	for power := math.Floor(c.logLow); power <= c.logHigh; power++ {
		for _, step := range steps {
			if us := step * math.Pow(10, power); math.Log10(us) >= c.logLow && math.Log10(us) <= c.logHigh {
				mark := axisTick{X: c.svgX(us), Label: tickLabel(us), Anchor: "middle"}
				switch at := c.percentAt(us); { // text beyond the edges would be invisible
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

// addMarks marks the quantiles. Each label has its own line, because they may be close.
func (c *latencyChart) addMarks(l *latencyResult) {
	for i, q := range []struct {
		name string
		us   float64
	}{{"median", l.P50}, {"95 %", l.P95}, {"99 %", l.P99}} {
		m := quantileMark{X: c.svgX(q.us), Label: q.name + " " + formatMicros(q.us), Anchor: "start", DX: 4, Y: i * 18}
		if c.percentAt(q.us) > 60 {
			m.Anchor, m.DX = "end", -4
		}
		c.Marks = append(c.Marks, m)
	}
}

// percentAt returns the horizontal position of a time in microseconds.
func (c *latencyChart) percentAt(us float64) float64 {
	return 100 * min(max((math.Log10(max(us, 1e-3))-c.logLow)/(c.logHigh-c.logLow), 0), 1)
}

// svgX formats the horizontal position of a time in microseconds for SVG.
func (c *latencyChart) svgX(us float64) string { return formatPercent(c.percentAt(us)) }

func formatPercent(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) + "%" }

// tickLabel formats a round time in microseconds.
func tickLabel(us float64) string {
	return time.Duration(math.Round(us * 1e3)).String()
}
