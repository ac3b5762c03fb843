package report

import (
	"net/url"
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

	chosen      subject
	chosenCards []historyCard
	kept        map[subject]bool // those with curves
}

// A subject is an export or a client with curves of its own.
type subject struct {
	kind string // subjectExport, subjectClient, or "" for none
	name string // path or address
}

// The kinds of a subject are the names of the page's parameters.
const (
	subjectExport = "export"
	subjectClient = "client"
)

// parseSubject returns the subject of a request's parameters.
func parseSubject(q url.Values) subject {
	for _, kind := range []string{subjectExport, subjectClient} {
		if q.Has(kind) {
			return subject{kind, q.Get(kind)}
		}
	}
	return subject{}
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

// A historyCurve is a curve that a card shows. A negative value is none.
type historyCurve struct {
	id, title string
	isNumber  bool // not a mean over an interval
	format    func(float64) string
	value     func(*historySample) float64
}

// historyCurves are the server's curves.
var historyCurves = []historyCurve{
	{"calls", "calls a second", false, formatRate, callRate},
	{"in", "received a second", false, formatByteRate, inRate},
	{"out", "sent a second", false, formatByteRate, outRate},
	{"errors", "errors a second", false, formatRate, errorRate},
	{"latency", "mean latency", false, formatSeconds, meanLatency},
	{"connections", "connections", true, formatCount, connectionCount},
	{"clients", "clients with state", true, formatCount, clientCount},
}

// subjectCurves are the curves of an export, and of a client without the last: the sum of its calls'
// durations is not counted.
var subjectCurves = []historyCurve{
	{"", "calls a second", false, formatRate, callRate},
	{"", "read a second", false, formatByteRate, outRate},
	{"", "written a second", false, formatByteRate, inRate},
	{"", "mean latency", false, formatSeconds, meanLatency},
}

func callRate(s *historySample) float64        { return s.calls }
func inRate(s *historySample) float64          { return s.in }
func outRate(s *historySample) float64         { return s.out }
func errorRate(s *historySample) float64       { return s.errors }
func meanLatency(s *historySample) float64     { return s.latency }
func connectionCount(s *historySample) float64 { return float64(s.connections) }
func clientCount(s *historySample) float64     { return float64(s.clients) }

func formatRate(v float64) string     { return strconv.FormatFloat(v, 'f', 1, 64) }
func formatByteRate(v float64) string { return formatSize(uint64(v)) }
func formatCount(v float64) string    { return strconv.FormatFloat(v, 'f', 0, 64) }

func formatSeconds(v float64) string {
	if v < 0 {
		return "-"
	}
	return formatDuration(time.Duration(v * float64(time.Second)))
}

// newLiveHistory returns the history as it is now, with the curves of chosen, or an empty one if h is
// nil.
func newLiveHistory(h *History, chosen subject) *liveHistory {
	if h == nil {
		return new(liveHistory)
	}
	now, at := h.totals(), h.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	base := h.recentBase(at)
	v := &liveHistory{base: base.historyTotals, interval: at - base.at, chosen: chosen, kept: make(map[subject]bool)}
	current := newSample(v.base, now, v.interval, at)
	samples := append(h.listSamples(at), current)
	v.Span = min(max(at-samples[0].end, minCurveSpan)+time.Minute-1, historySpan).Truncate(time.Minute)
	v.Cards = v.drawCards(historyCurves, samples, at)
	v.addSubjects(h, subjectExport, &h.exports, subjectCurves, v.base.exports, now.exports, at)
	v.addSubjects(h, subjectClient, &h.addresses, subjectCurves[:3], v.base.addresses, now.addresses, at)
	return v
}

// addSubjects adds which subjects of a kind have curves, and the curves of the chosen one.
func (v *liveHistory) addSubjects(h *History, kind string, s *seriesSet, curves []historyCurve, was, now map[string]usageTotals, at time.Duration) {
	for name := range s.kept {
		v.kept[subject{kind, name}] = true
	}
	if !v.kept[v.chosen] || v.chosen.kind != kind {
		return
	}
	name := v.chosen.name
	current := newUsageSample(was[name], now[name], v.interval)
	v.chosenCards = v.drawCards(curves, append(h.listSeries(s.kept[name], at), historySample{end: at, usageSample: current}), at)
}

// drawCards returns a card for each curve. The last sample has the current values.
func (v *liveHistory) drawCards(curves []historyCurve, samples []historySample, at time.Duration) (cards []historyCard) {
	current := &samples[len(samples)-1]
	for _, c := range curves {
		card := historyCard{ID: c.id, Title: c.title, Value: c.format(c.value(current)), Note: "mean of " + formatSpan(v.interval)}
		if c.isNumber {
			card.Note = "now"
		}
		var highest float64
		card.Curve, highest = drawCurve(samples, at, v.Span, c.value)
		card.Highest = c.format(highest)
		cards = append(cards, card)
	}
	return cards
}

// A subjectChoice is the name of an export or a client in its row, with the address of the page that
// has its curves, or that lacks them if they are shown. Without curves it has no address.
type subjectChoice struct {
	Name, Link string
	IsChosen   bool
}

// Choice returns the choice for a row.
func (v *liveHistory) Choice(kind, name string) subjectChoice {
	c := subjectChoice{Name: name}
	switch s := (subject{kind, name}); {
	case s == v.chosen:
		c.Link, c.IsChosen = "./", true
	case v.kept[s]:
		c.Link = "?" + url.Values{kind: {name}}.Encode() + "#own"
	}
	return c
}

// A chosenSubject is what the page shows below the chosen row.
type chosenSubject struct {
	Cards []historyCard // none: the subject has no curves
	Span  time.Duration
	Most  int // how many have curves
}

// Chosen returns the curves if the subject is the chosen one, or nil.
func (v *liveHistory) Chosen(kind, name string) *chosenSubject {
	if v.chosen != (subject{kind, name}) {
		return nil
	}
	return &chosenSubject{v.chosenCards, v.Span, maxSeries}
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
	return v.newRecentRates(was, usageTotals{calls: p.Calls, in: p.BytesIn, out: p.BytesOut})
}

// Export returns an export's rates. They are unknown, as "-", for one that is newer than the
// interval, whose counters may be older.
func (v *liveHistory) Export(e Export) recentRates {
	if e.Activity == nil || v.base == nil {
		return recentRates{Calls: "-"}
	}
	return v.activityRates(v.base.exports, e.Path, &e.Activity.Activity)
}

// Client returns a client's rates, or unknown ones as Export does.
func (v *liveHistory) Client(c ClientActivity) recentRates {
	if v.base == nil {
		return recentRates{Calls: "-"}
	}
	return v.activityRates(v.base.addresses, c.Address, &c.Activity)
}

func (v *liveHistory) activityRates(base map[string]usageTotals, name string, now *Activity) recentRates {
	was, ok := base[name]
	if !ok {
		return recentRates{Calls: "-"}
	}
	return v.newRecentRates(was, usageTotals{calls: now.Calls, in: now.BytesWritten, out: now.BytesRead})
}
