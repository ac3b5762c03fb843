package report

import (
	"strconv"
	"strings"
	"time"
)

// A liveHistory is the history on the live page: a card for each of its curves, and what was done
// since its last interval began.
type liveHistory struct {
	Cards []historyCard
	Span  time.Duration // that the curves show

	base     *historyTotals // nil: there is no history
	interval time.Duration  // since base
}

// A historyCard has a current value, and its curve.
type historyCard struct {
	ID, Title   string
	Value, Note string
	Curve       string // an SVG path in a box of curveWidth and curveHeight
	Highest     string // the curve's highest value
}

// The curves' size, in units of their SVG pictures.
const (
	curveWidth  = 360
	curveHeight = 30
)

// minCurveSpan is the shortest time that curves show. A longer one is rounded up to a minute.
const minCurveSpan = 5 * time.Minute

// historyCurves are the cards' curves. A negative value is none.
var historyCurves = []struct {
	id, title string
	isNumber  bool // not a mean over an interval
	format    func(float64) string
	value     func(*historySample) float64
}{
	{"calls", "calls a second", false, formatRate, func(s *historySample) float64 { return s.calls }},
	{"in", "received a second", false, formatByteRate, func(s *historySample) float64 { return s.in }},
	{"out", "sent a second", false, formatByteRate, func(s *historySample) float64 { return s.out }},
	{"errors", "errors a second", false, formatRate, func(s *historySample) float64 { return s.errors }},
	{"latency", "mean latency", false, formatSeconds, func(s *historySample) float64 { return s.latency }},
	{"connections", "connections", true, formatCount, func(s *historySample) float64 { return float64(s.connections) }},
	{"clients", "clients with state", true, formatCount, func(s *historySample) float64 { return float64(s.clients) }},
}

func formatRate(v float64) string     { return strconv.FormatFloat(v, 'f', 1, 64) }
func formatByteRate(v float64) string { return formatSize(uint64(v)) }
func formatCount(v float64) string    { return strconv.FormatFloat(v, 'f', 0, 64) }

func formatSeconds(v float64) string {
	if v < 0 {
		return "-"
	}
	return formatDuration(time.Duration(v * float64(time.Second)))
}

// newLiveHistory returns the history as it is now, or an empty one if h is nil.
func newLiveHistory(h *History) *liveHistory {
	if h == nil {
		return new(liveHistory)
	}
	now, at := h.totals(), h.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	base := h.recentBase(at)
	v := &liveHistory{base: base.historyTotals, interval: at - base.at}
	current := newSample(v.base, now, v.interval, at)
	samples := append(h.listSamples(at), current)
	v.Span = min(max(at-samples[0].end, minCurveSpan)+time.Minute-1, historySpan).Truncate(time.Minute)
	for _, c := range historyCurves {
		card := historyCard{ID: c.id, Title: c.title, Value: c.format(c.value(&current)), Note: "mean of " + formatSpan(v.interval)}
		if c.isNumber {
			card.Note = "now"
		}
		var highest float64
		card.Curve, highest = drawCurve(samples, at, v.Span, c.value)
		card.Highest = c.format(highest)
		v.Cards = append(v.Cards, card)
	}
	return v
}

// drawCurve returns an SVG path of the samples' values, and the highest value. Samples that do not
// follow each other, and those without a value, are not joined.
func drawCurve(samples []historySample, now, span time.Duration, value func(*historySample) float64) (path string, highest float64) {
	for i := range samples {
		highest = max(highest, value(&samples[i]))
	}
	var b strings.Builder
	joined := false
	for i := range samples {
		s := &samples[i]
		y := value(s)
		if y < 0 {
			joined = false
			continue
		}
		if i > 0 && s.end-samples[i-1].end > maxHistoryInterval {
			joined = false
		}
		x := curveWidth * (1 - float64(now-s.end)/float64(span))
		y = curveHeight - 1
		if highest > 0 {
			y -= (curveHeight - 2) * value(s) / highest
		}
		b.WriteString(map[bool]string{false: "M", true: "L"}[joined])
		b.WriteString(strconv.FormatFloat(x, 'f', 1, 64) + " " + strconv.FormatFloat(y, 'f', 1, 64))
		if !joined {
			b.WriteString("h0") // a point is visible alone
		}
		joined = true
	}
	return b.String(), highest
}

// A recentRates has what was done a second in the last interval.
type recentRates struct{ Calls, Read, Written string }

// newRecentRates returns the rates since was, or none if there is no history.
func (v *liveHistory) newRecentRates(was, now usageTotals) recentRates {
	if v.base == nil {
		return recentRates{Calls: "-"}
	}
	r := recentRates{Calls: formatRate(ratePerSecond(was.calls, now.calls, v.interval))}
	if n := ratePerSecond(was.out, now.out, v.interval); n >= 1 {
		r.Read = formatByteRate(n) + "/s"
	}
	if n := ratePerSecond(was.in, now.in, v.interval); n >= 1 {
		r.Written = formatByteRate(n) + "/s"
	}
	return r
}

// Procedure returns a procedure's rates.
func (v *liveHistory) Procedure(p procDoc) recentRates {
	var was usageTotals
	if v.base != nil {
		was = v.base.procedures[p.Program+" "+p.Procedure]
	}
	return v.newRecentRates(was, usageTotals{p.Calls, p.BytesIn, p.BytesOut})
}

// Export returns an export's rates. They are unknown, as "-", for one that is newer than the
// interval, whose counters may be older.
func (v *liveHistory) Export(e Export) recentRates {
	if e.Activity == nil || v.base == nil {
		return recentRates{Calls: "-"}
	}
	was, ok := v.base.exports[e.Path]
	if !ok {
		return recentRates{Calls: "-"}
	}
	return v.newRecentRates(was, usageTotals{e.Activity.Calls, e.Activity.BytesWritten, e.Activity.BytesRead})
}
