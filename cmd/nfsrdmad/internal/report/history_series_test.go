package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// passWith lets the time of n samples pass, in each of which exports have more calls.
func (h *testHistory) passWith(n int, calls map[string]uint64) {
	for range n {
		exports := maps.Clone(h.counters.exports)
		for path, more := range calls {
			t := exports[path]
			t.calls += more
			t.out += 1024 * more
			t.busy += time.Duration(more) * time.Millisecond
			exports[path] = t
		}
		h.counters.exports = exports
		h.pass(1, 0)
	}
}

// exportAs names an export.
func exportAs(i int) string { return fmt.Sprintf("/srv/%02d", i) }

// newExportHistory returns a history with n exports that have no calls.
func newExportHistory(n int) *testHistory {
	h := newTestHistory()
	h.counters.exports = make(map[string]usageTotals)
	for i := range n {
		h.counters.exports[exportAs(i)] = usageTotals{}
	}
	h.bases[0] = historyBase{}
	h.takeSample()
	return h
}

func (h *testHistory) keptExports() []string { return slices.Sorted(maps.Keys(h.exports.kept)) }

// TestSeriesBusiest checks which exports have curves if there are more than places: the busiest
// lately, of which one with about the same load as another does not take its place.
func TestSeriesBusiest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newExportHistory(20)
		calls := make(map[string]uint64)
		for i := range 20 {
			calls[exportAs(i)] = uint64(100 * (20 - i))
		}
		h.passWith(10, calls)
		assert.Len(t, h.exports.kept, maxSeries)
		assert.Equal(t, []string{exportAs(0), exportAs(15)}, []string{h.keptExports()[0], h.keptExports()[15]})
		assert.Contains(t, h.keptExports(), exportAs(1))

		calls[exportAs(16)] = 600 // no more than 1.5 times the calls of the idlest, 15 with 500
		h.passWith(historySize, calls)
		assert.NotContains(t, h.keptExports(), exportAs(16))
		calls[exportAs(16)] = 2000
		h.passWith(historySize, calls)
		assert.Contains(t, h.keptExports(), exportAs(16))
		assert.NotContains(t, h.keptExports(), exportAs(15))
		assert.Len(t, h.exports.kept, maxSeries)

		delete(h.counters.exports, exportAs(0))
		delete(calls, exportAs(0))
		h.passWith(1, calls)
		assert.NotContains(t, h.keptExports(), exportAs(0), "it is not exported any more")
		assert.Contains(t, h.keptExports(), exportAs(15), "the busiest of the rest")
		assert.Len(t, h.exports.load, 19)
	})
}

// TestSeriesSamples checks the values of an export that comes later, beside those of another, and that
// they stay in their places when the ring is full.
func TestSeriesSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newExportHistory(1)
		h.passWith(2, map[string]uint64{exportAs(0): 10})
		h.counters.exports = maps.Clone(h.counters.exports)
		h.counters.exports["/new"] = usageTotals{calls: 1000}
		h.passWith(1, nil)
		h.passWith(1, map[string]uint64{"/new": 20})
		list := func(path string) (all []usageSample) {
			for _, s := range h.listSeries(h.exports.kept[path], h.clock()) {
				all = append(all, s.usageSample)
			}
			return all
		}
		busy, idle := usageSample{1, 0, 1024, 0.001}, usageSample{latency: -1}
		assert.Equal(t, []usageSample{busy, busy, idle, idle}, list(exportAs(0)))
		assert.Equal(t, []usageSample{unknownUsage, unknownUsage, unknownUsage, {2, 0, 2048, 0.001}}, list("/new"), "without the calls before it was known")
		h.passWith(historySize-2, nil)
		assert.Equal(t, []usageSample{unknownUsage, {2, 0, 2048, 0.001}, idle}, list("/new")[:3])
	})
}

// busyHistory returns an hour of 20 exports and 30 clients, and the status at its end.
func busyHistory(t *testing.T) (*testHistory, *Status) {
	t.Helper()
	h := newTestHistory()
	h.counters.connections, h.counters.clients = 12, 9
	d := &Status{Daemon: daemonDoc{State: "serving", Version: "0.1.0", PID: 4711, Since: time.Now().Add(-2 * time.Hour)}, ClientActivity: new(ClientActivities)}
	exports, addresses := make(map[string]usageTotals), make(map[string]usageTotals)
	addCalls := func(i int) {
		exports, addresses = maps.Clone(exports), maps.Clone(addresses)
		for n := range 30 {
			wave := 1 + math.Sin(float64(i+40*n)/float64(9+n))
			calls := uint64(wave*4000/float64(1+n)) + uint64(i*7919*(n+1)%90)
			more := func(t usageTotals) usageTotals {
				busy := time.Duration(calls) * time.Duration(200+100*wave) * time.Microsecond
				return usageTotals{t.calls + calls, t.in + 9000*calls, t.out + 40_000*calls, t.busy + busy}
			}
			if n < 20 {
				exports[exportAs(n)] = more(exports[exportAs(n)])
			}
			address := fmt.Sprintf("192.0.2.%d", n)
			addresses[address] = more(addresses[address])
			h.counters.usageTotals = more(h.counters.usageTotals)
		}
		h.counters.exports, h.counters.addresses = exports, addresses
	}
	for i := range historySize + 20 {
		addCalls(i)
		if i == 250 {
			h.suspended += 4 * time.Minute
		}
		h.pass(1, 0)
	}
	time.Sleep(7 * time.Second)
	addCalls(historySize + 20)
	for n := range 30 {
		activity := func(u usageTotals) Activity {
			return Activity{Calls: u.calls, BytesRead: u.out, BytesWritten: u.in, Latency: []latencyDoc{{1e-3, u.calls}}}
		}
		if n < 20 {
			u := exports[exportAs(n)]
			d.Exports = append(d.Exports, Export{
				Path: exportAs(n), Clients: []string{"192.0.2.0/24(rw,sync)"}, Space: &Space{Bytes: 1 << 40, AvailableBytes: 1 << 37 * uint64(1+n%7), Files: 1e6, AvailableFiles: 9e5, Responds: true},
				Activity: &ExportActivity{Activity: activity(u), Seconds: u.busy.Seconds(), CallsInFlight: n % 3},
			})
		}
		address := fmt.Sprintf("192.0.2.%d", n)
		d.ClientActivity.List = append(d.ClientActivity.List, ClientActivity{Address: address, Activity: activity(addresses[address])})
	}
	return h, d
}

// ownCurves returns the paths of the curves below the chosen row, and their titles.
func ownCurves(page string) (titles, paths []string) {
	_, own, _ := strings.Cut(page, `id="own"`)
	own, _, _ = strings.Cut(own, "</tr>")
	for _, m := range regexp.MustCompile(`<div class="card"><span>([^<]*)</span>.*?<path d="([^"]*)"`).FindAllStringSubmatch(own, -1) {
		titles, paths = append(titles, m[1]), append(paths, m[2])
	}
	return titles, paths
}

// TestLivePageSubject checks the curves of an export and of a client, which the page's address
// chooses, and the rows' links to such addresses. With HISTORY_PAGES the pages are written to that
// directory, to be looked at.
func TestLivePageSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, d := busyHistory(t)
		makePage := func(file, query string) string {
			q, err := url.ParseQuery(query)
			require.NoError(t, err)
			v := newLiveView(d, new(ClientList), new(liveHeldView), time.Now())
			v.History = newLiveHistory(h.History, parseSubject(q))
			var b strings.Builder
			require.NoError(t, liveTemplate().Execute(&b, v))
			if dir := os.Getenv("HISTORY_PAGES"); dir != "" {
				require.NoError(t, os.WriteFile(dir+"/"+file+".html", []byte(b.String()), 0o644))
			}
			return b.String()
		}
		export := []string{"calls a second", "read a second", "written a second", "mean latency"}
		plain := makePage("plain", "")
		titles, _ := ownCurves(plain)
		assert.Empty(t, titles)
		assert.Equal(t, maxSeries, strings.Count(plain, `href="?export=`))
		assert.Equal(t, maxSeries, strings.Count(plain, `href="?client=`))
		assert.Contains(t, plain, `<td><a href="?export=%2Fsrv%2F03#own" aria-expanded="false">/srv/03</a></td>`)
		assert.Contains(t, plain, `<td>/srv/19</td>`, "it has no curves")

		page := makePage("export", "export=/srv/03")
		titles, paths := ownCurves(page)
		assert.Equal(t, export, titles)
		for i, p := range paths {
			assert.Greater(t, strings.Count(p, "L"), historySize*8/10, titles[i])
			assert.Equal(t, 2, strings.Count(p, "M"), "the gap in %s", titles[i])
		}
		assert.Contains(t, page, `<td><a href="./" aria-expanded="true">/srv/03</a></td>`)
		assert.Less(t, len(page), 96<<10, "it is fetched every 2 s")

		titles, _ = ownCurves(makePage("client", "client=192.0.2.2"))
		assert.Equal(t, export[:3], titles)
		assert.Regexp(t, `^[0-9]+\.[0-9]$`, tableCells(plain, "load")[0][2], "the rate of a client")
		assert.Contains(t, makePage("none", "export=/srv/19"), "No curves: only the 16 busiest have them.")
		for _, query := range []string{"export=/elsewhere", "client=" + url.QueryEscape("<script>"), "other=1"} {
			titles, _ = ownCurves(makePage("other", query))
			assert.Empty(t, titles, query)
		}
	})
}

// TestHistoryJSON checks that all lists of the document have an element for each sample, and that
// unknown values are null.
func TestHistoryJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newExportHistory(1)
		h.counters.addresses = map[string]usageTotals{"192.0.2.7": {}}
		h.passWith(2, map[string]uint64{exportAs(0): 10})
		h.counters.addresses = map[string]usageTotals{"192.0.2.7": {calls: 25, in: 1000, out: 2000}}
		h.pass(1, 40)
		w := httptest.NewRecorder()
		(&Source{History: h.History}).serveHistory(w)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
		var d struct {
			Version  int
			Interval float64 `json:"interval_seconds"`
			Ends     []time.Time
			Server   map[string][]*float64
			Exports  []map[string]any
			Clients  []map[string]any
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
		assert.Equal(t, 1, d.Version)
		assert.InDelta(t, 10, d.Interval, 0)
		require.Len(t, d.Ends, 3)
		assert.WithinDuration(t, time.Now(), d.Ends[2], 0)
		assert.Equal(t, historyInterval, d.Ends[2].Sub(d.Ends[1]))
		for name, list := range d.Server {
			require.Len(t, list, 3, name)
		}
		assert.InDelta(t, 4, *d.Server["calls"][2], 0)
		assert.InDelta(t, 0.001, *d.Server["latency_seconds"][2], 0)
		assert.Nil(t, d.Server["latency_seconds"][0])
		assert.Equal(t, []map[string]any{{
			"path": exportAs(0), "calls": []any{1.0, 1.0, 0.0}, "bytes_read": []any{1024.0, 1024.0, 0.0},
			"bytes_written": []any{0.0, 0.0, 0.0}, "latency_seconds": []any{0.001, 0.001, nil},
		}}, d.Exports)
		assert.Equal(t, []map[string]any{{
			"address": "192.0.2.7", "calls": []any{nil, 0.0, 2.5}, "bytes_read": []any{nil, 0.0, 200.0}, "bytes_written": []any{nil, 0.0, 100.0},
		}}, d.Clients)
	})
}
