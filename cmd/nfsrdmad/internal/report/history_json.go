package report

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A historyDoc is the response at /history of --metrics. docs/operations.md describes it. Its lists
// have an element for each sample of the last hour, the oldest first.
type historyDoc struct {
	Version  int                `json:"version"`
	Interval float64            `json:"interval_seconds"`
	Ends     []time.Time        `json:"ends"`
	Server   serverHistoryDoc   `json:"server"`
	Exports  []exportHistoryDoc `json:"exports"` // the busiest, by path
	Clients  []clientHistoryDoc `json:"clients"` // the busiest, by address
}

type serverHistoryDoc struct {
	Calls       []historyValue `json:"calls"` // this and the following are means per second
	BytesIn     []historyValue `json:"bytes_in"`
	BytesOut    []historyValue `json:"bytes_out"`
	Errors      []historyValue `json:"errors"`
	Latency     []historyValue `json:"latency_seconds"`
	Connections []historyValue `json:"connections"`
	Clients     []historyValue `json:"clients"`
}

type exportHistoryDoc struct {
	Path string `json:"path"`
	usageHistoryDoc
	Latency []historyValue `json:"latency_seconds"`
}

type clientHistoryDoc struct {
	Address string `json:"address"`
	usageHistoryDoc
}

type usageHistoryDoc struct {
	Calls        []historyValue `json:"calls"` // means per second
	BytesRead    []historyValue `json:"bytes_read"`
	BytesWritten []historyValue `json:"bytes_written"`
}

// A historyValue is a value of a sample. A negative one is none, which is null in JSON.
type historyValue float64

// MarshalJSON returns the value with six digits.
func (v historyValue) MarshalJSON() ([]byte, error) {
	if v < 0 {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(v), 'g', 6, 64), nil
}

// newHistoryDoc describes the last hour.
func newHistoryDoc(h *History) *historyDoc {
	d := &historyDoc{Version: SchemaVersion, Interval: historyInterval.Seconds(), Ends: []time.Time{}, Exports: []exportHistoryDoc{}, Clients: []clientHistoryDoc{}}
	now, at := time.Now().UTC(), h.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	samples := h.listSamples(at)
	for _, s := range samples {
		d.Ends = append(d.Ends, now.Add(s.end-at).Truncate(time.Millisecond))
	}
	d.Server = serverHistoryDoc{
		Calls: listValues(samples, callRate), BytesIn: listValues(samples, inRate), BytesOut: listValues(samples, outRate),
		Errors: listValues(samples, errorRate), Latency: listValues(samples, meanLatency),
		Connections: listValues(samples, connectionCount), Clients: listValues(samples, clientCount),
	}
	for _, name := range slices.Sorted(maps.Keys(h.exports.kept)) {
		own := h.listSeries(h.exports.kept[name], at)
		d.Exports = append(d.Exports, exportHistoryDoc{name, newUsageHistoryDoc(own), listValues(own, meanLatency)})
	}
	for _, name := range slices.Sorted(maps.Keys(h.addresses.kept)) {
		d.Clients = append(d.Clients, clientHistoryDoc{name, newUsageHistoryDoc(h.listSeries(h.addresses.kept[name], at))})
	}
	return d
}

func newUsageHistoryDoc(samples []historySample) usageHistoryDoc {
	return usageHistoryDoc{listValues(samples, callRate), listValues(samples, outRate), listValues(samples, inRate)}
}

func listValues(samples []historySample, value func(*historySample) float64) []historyValue {
	all := make([]historyValue, len(samples))
	for i := range samples {
		all[i] = historyValue(value(&samples[i]))
	}
	return all
}

// serveHistory serves the history as JSON.
func (src *Source) serveHistory(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(newHistoryDoc(src.History)) // fails if the client has disconnected
}
