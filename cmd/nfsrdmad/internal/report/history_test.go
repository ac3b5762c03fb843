package report

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A testHistory is a History of counters that a test changes, with virtual time.
type testHistory struct {
	*History
	counters  historyTotals
	suspended time.Duration // so far
}

func newTestHistory() *testHistory {
	h, start := new(testHistory), time.Now()
	h.History = &History{
		clock:  func() time.Duration { return time.Since(start) + h.suspended },
		totals: func() *historyTotals { c := h.counters; return &c },
	}
	h.takeSample()
	return h
}

// pass lets the time of n samples pass, and makes the calls of each.
func (h *testHistory) pass(n int, calls uint64) {
	for range n {
		h.counters.calls += calls
		h.counters.busy += time.Duration(calls) * time.Millisecond
		time.Sleep(historyInterval)
		h.takeSample()
	}
}

// callRates returns the calls a second of each sample.
func (h *testHistory) callRates() (all []float64) {
	for _, s := range h.listSamples(h.clock()) {
		all = append(all, s.calls)
	}
	return all
}

// TestHistorySamples checks the values of a sample.
func TestHistorySamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHistory()
		assert.Empty(t, h.listSamples(h.clock()))
		h.counters = historyTotals{usageTotals: usageTotals{calls: 100, in: 2000, out: 30000, busy: time.Second}, errors: 5, connections: 3, clients: 2}
		h.pass(1, 0)
		h.counters.connections = 1
		h.pass(1, 0)
		assert.Equal(t, []historySample{
			{end: historyInterval, usageSample: usageSample{10, 200, 3000, 0.01}, errors: 0.5, connections: 3, clients: 2},
			{end: 2 * historyInterval, usageSample: usageSample{latency: -1}, connections: 1, clients: 2},
		}, h.listSamples(h.clock()))
	})
}

// TestHistoryHour checks that a History keeps an hour, and not more.
func TestHistoryHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHistory()
		h.pass(100, 10)
		h.pass(historySize-1, 20)
		rates := h.callRates()
		assert.Len(t, rates, historySize)
		assert.Equal(t, []float64{1, 2, 2}, rates[:3], "the oldest first")
		h.pass(1, 30)
		rates = h.callRates()
		assert.Len(t, rates, historySize)
		assert.InDelta(t, 2, rates[0], 0)
		assert.InDelta(t, 3, rates[historySize-1], 0)
	})
}

// TestHistorySuspend checks that a suspended host leaves a gap: neither a spike for what came after
// it, nor a mean over it. What is older than an hour is not shown.
func TestHistorySuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHistory()
		h.pass(2, 10)
		h.suspended += 30 * time.Minute
		h.pass(1, 1e6)
		h.pass(2, 10)
		assert.Equal(t, []float64{1, 1, 1, 1}, h.callRates())
		v := newLiveHistory(h.History, subject{})
		assert.Equal(t, 2, strings.Count(v.Cards[0].Curve, "M"), "two lines: %s", v.Cards[0].Curve)
		assert.Equal(t, "1.0", v.Cards[0].Highest)
		h.suspended += 2 * time.Hour
		h.pass(1, 1e6)
		assert.Empty(t, h.callRates())
	})
}

// TestHistoryStart checks that a sample is taken every 10 s until stop.
func TestHistoryStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		h := &History{clock: func() time.Duration { return time.Since(start) }, totals: func() *historyTotals { return new(historyTotals) }}
		stop := h.Start()
		time.Sleep(25 * time.Second)
		stop()
		time.Sleep(time.Hour)
		assert.Equal(t, 2, h.taken)
		assert.Equal(t, 20*time.Second, h.samples[1].end)
	})
}

// TestHistoryRecent checks that the page's values before its first refresh are those of the last
// seconds, not since the start, and that those of an unknown past are not invented.
func TestHistoryRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHistory()
		setCounters := func(n uint64) {
			h.counters.calls = n
			h.counters.procedures = map[string]usageTotals{"nfs3 READ": {calls: n}}
			h.counters.exports = map[string]usageTotals{"/x": {calls: n, out: 1024 * n}}
		}
		setCounters(1e6)
		h.pass(10, 0)
		setCounters(1e6 + 260)
		for _, step := range []struct {
			after time.Duration // the last sample
			rate  string
		}{{3 * time.Second, "20.0"}, {8 * time.Second, "32.5"}} {
			time.Sleep(step.after - (h.clock() - h.bases[0].at))
			v := newLiveHistory(h.History, subject{})
			assert.Equal(t, step.rate, v.Cards[0].Value, step.after)
			assert.Equal(t, step.rate, v.Procedure(procDoc{Program: "nfs3", Procedure: "READ", Calls: 1e6 + 260}).Calls, step.after)
		}
		v := newLiveHistory(h.History, subject{})
		e := Export{Path: "/x", Activity: &ExportActivity{Activity: Activity{Calls: 1e6 + 260, BytesRead: 1024 * (1e6 + 260)}}}
		assert.Equal(t, recentRates{"32.5", "32.5 KiB/s", ""}, v.Export(e))
		assert.Equal(t, recentRates{Calls: "0.5"}, v.Procedure(procDoc{Program: "nfs3", Procedure: "WRITE", Calls: 4}), "the first calls")
		e.Path = "/new"
		assert.Equal(t, recentRates{Calls: "-"}, v.Export(e))
		e.Path, e.Activity.Calls = "/x", 8
		assert.Equal(t, "1.0", v.Export(e).Calls, "counters that began again")
	})
}

// TestHistoryCurve checks a curve's path.
func TestHistoryCurve(t *testing.T) {
	callsAt := func(end time.Duration, calls float64) historySample {
		return historySample{end: end, usageSample: usageSample{calls: calls}}
	}
	path, highest := drawCurve([]historySample{callsAt(0, 1), callsAt(20, 4), callsAt(60, -1), callsAt(80, 2)}, 80, 80, callRate)
	assert.Equal(t, "M0.0 22.0h0L90.0 1.0M360.0 15.0h0", path)
	assert.InDelta(t, 4, highest, 0)
	path, _ = drawCurve([]historySample{{end: 80}}, 80, 80, callRate)
	assert.Equal(t, "M360.0 29.0h0", path)
}

// TestLivePageHistory checks that the page has the curves of the history, and the exports' options
// that are not the default. With HISTORY_PAGE the page is written there, to be looked at.
func TestLivePageHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHistory()
		h.counters.connections, h.counters.clients = 4, 3
		for i := range uint64(2 * historySize) {
			n := 200 + 150*(i/40%3) + i*7919%60
			h.counters.in, h.counters.out, h.counters.errors = h.counters.in+3000*n, h.counters.out+120_000*n, h.counters.errors+i/100%2*i%7
			h.counters.connections = 4 + int(i/90)
			if i == 600 {
				h.suspended += 5 * time.Minute
			}
			h.pass(1, 10*n)
			h.counters.procedures = map[string]usageTotals{"nfs3 READ": {calls: 1000}}
			h.counters.exports = map[string]usageTotals{"/srv/data": {calls: 1000}}
		}
		time.Sleep(7 * time.Second)
		h.counters.calls, h.counters.busy = h.counters.calls+4000, h.counters.busy+5*time.Second
		d := &Status{
			Daemon:         daemonDoc{State: "serving", Since: time.Now().Add(-2 * time.Hour)},
			Exports:        []Export{{Path: "/srv/data", Clients: []string{"192.0.2.0/24(rw,sync,secure,no_root_squash,no_subtree_check,sec=sys)", "*(ro,sync,secure,root_squash)"}, Activity: &ExportActivity{Activity: Activity{Calls: 1700, BytesRead: 7 << 20}}}},
			Procedures:     []procDoc{{Program: "nfs3", Procedure: "READ", Calls: 1700, Traffic: newTraffic(1<<20, 7<<20), Latency: []latencyDoc{{1e-3, 1000}}}},
			ClientActivity: &ClientActivities{List: []ClientActivity{{Address: "192.0.2.7", Activity: Activity{Calls: 1700}}}},
		}
		v := newLiveView(d, new(ClientList), new(liveHeldView), time.Now())
		v.History = newLiveHistory(h.History, subject{})
		var b strings.Builder
		require.NoError(t, liveTemplate().Execute(&b, v))
		page := b.String()
		if file := os.Getenv("HISTORY_PAGE"); file != "" {
			require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
		}
		curves := regexp.MustCompile(`<path d="([^"]*)"`).FindAllStringSubmatch(page, -1)
		require.Len(t, curves, len(historyCurves))
		for i, c := range curves {
			assert.Greater(t, strings.Count(c[1], "L"), historySize*9/10, historyCurves[i].id)
			assert.Equal(t, 2, strings.Count(c[1], "M"), "the gap in %s", historyCurves[i].id)
		}
		assert.True(t, strings.Contains(page, "Curves: the last 1 h 0 min, "))
		exports := tableCells(page, "exports")
		require.Len(t, exports, 1)
		assert.Equal(t, "192.0.2.0/24(rw,no_root_squash) *(ro)", exports[0][len(exports[0])-1])
		assert.Equal(t, "100.0", exports[0][5], "700 in 7 s")
		assert.Equal(t, "100.0", tableCells(page, "procedures")[0][2])
		assert.Equal(t, "-", tableCells(page, "load")[0][2])
		assert.Less(t, len(page), 64<<10, "it is fetched every 2 s")
	})
}
