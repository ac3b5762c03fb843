package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// livePage is the live page's template, with its style and its script, which refreshes the page
// and shows rates since the last refresh.
//
//go:embed live.html
var livePage string

// liveActivity is its part about exports and clients.
//
//go:embed live_activity.html
var liveActivity string

// maxLive bounds the connections and the clients that the live page lists.
const maxLive = 200

// A liveView is the data of the live page: the documents of status and clients at one time,
// and sums over them.
type liveView struct {
	*Status
	Holders *ClientList
	Held    *liveHeldView
	History *liveHistory
	At      time.Time
	Up      time.Duration

	Calls, In, Out, Errors uint64  // sums over all procedures
	Busy                   float64 // sum of the calls' durations, in seconds
	UnderWay               int
	Words                  []attentionNotice
}

func newLiveView(d *Status, holders *ClientList, held *liveHeldView, at time.Time) *liveView {
	v := &liveView{Status: d, Holders: holders, Held: held, History: new(liveHistory), At: at, Up: at.Sub(d.Daemon.Since), Words: listAttention(d, holders, at)}
	for i := range d.Procedures {
		p := &d.Procedures[i]
		v.Calls += p.Calls
		v.In += p.BytesIn
		v.Out += p.BytesOut
		v.Busy += p.Seconds
		for _, e := range p.Errors {
			v.Errors += e.Calls
		}
	}
	for i := range d.Connections {
		v.UnderWay += d.Connections[i].CallsUnderWay
	}
	return v
}

// FirstConnections returns the connections that the page lists.
func (v *liveView) FirstConnections() []Connection {
	return v.Connections[:min(len(v.Connections), maxLive)]
}

// MoreConnections counts the connections that FirstConnections omits.
func (v *liveView) MoreConnections() int { return max(len(v.Connections)-maxLive, 0) }

// FirstHolders returns the clients with opens or locks that the page lists.
func (v *liveView) FirstHolders() []clientDoc {
	return v.Holders.Clients[:min(len(v.Holders.Clients), maxLive)]
}

// MoreHolders counts the clients that FirstHolders omits.
func (v *liveView) MoreHolders() int { return max(v.Holders.Total-maxLive, 0) }

// A latencyShape is a bar chart of a procedure's latencies, with a bar for each class of
// rpcstats.LatencyBounds.
type latencyShape struct {
	Width int
	Bars  []latencyBar
	Words string
}

type latencyBar struct{ X, Y, Height int }

// shapeHeight is the highest bar's height, and barWidth the distance between bars, in
// the chart's units.
const (
	shapeHeight = 20
	barWidth    = 10
)

func newLatencyShape(c procDoc) *latencyShape {
	var most uint64
	for _, l := range c.Latency {
		most = max(most, l.Calls)
	}
	if most == 0 {
		return nil
	}
	s := &latencyShape{Width: (len(rpcstats.LatencyBounds) + 1) * barWidth}
	var words []string
	for _, l := range c.Latency {
		class := len(rpcstats.LatencyBounds)
		name := "more"
		for i, b := range rpcstats.LatencyBounds {
			if l.Seconds == b.Seconds() {
				class, name = i, "up to "+formatDuration(b)
			}
		}
		height := max(int(l.Calls*shapeHeight/most), 1)
		s.Bars = append(s.Bars, latencyBar{class*barWidth + 1, shapeHeight - height, height})
		words = append(words, name+": "+strconv.FormatUint(l.Calls, 10))
	}
	s.Words = strings.Join(words, ", ")
	return s
}

// liveTemplate is parsed when the page is first requested, not by each command.
var liveTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("live").Funcs(template.FuncMap{
		"size": formatSize, "span": formatSpan, "printable": quoteUnprintable, "shape": newLatencyShape,
		"u":        func(n int64) uint64 { return uint64(max(n, 0)) },
		"ago":      func(t time.Time) string { return formatSpan(time.Since(t)) },
		"seconds":  func(s float64) string { return formatSpan(time.Duration(s * float64(time.Second))) },
		"words":    func(d securityDoc) string { return d.describe() },
		"agreed":   func(d *rdmaConnDoc) string { return d.features() },
		"mean":     func(c procDoc) string { return formatDuration(c.meanDuration()) },
		"below":    func(c procDoc, percent uint64) string { return c.percentileBound(percent) },
		"used":     (*Space).usedShare,
		"meanCall": (*ExportActivity).meanDuration,
		"limit":    func(a Activity, percent uint64) string { return a.percentileBound(percent) },
		"options":  omitDefaults,
		"causes":   func(a Activity) string { return a.errorWords() },
	}).Parse(livePage + liveActivity))
})

// contentPolicy is the live page's Content-Security-Policy: it allows only the page's own
// style and script, and requests for the page itself.
var contentPolicy = sync.OnceValue(func() string {
	var b bytes.Buffer
	if err := liveTemplate().Execute(&b, newLiveView(new(Status), new(ClientList), new(liveHeldView), time.Now())); err != nil {
		panic(err)
	}
	return "default-src 'none'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src " +
		sourceHash(b.String(), "style") + "; script-src " + sourceHash(b.String(), "script")
})

// sourceHash returns the source expression for the content of the page's only element with a
// name.
func sourceHash(page, element string) string {
	_, rest, _ := strings.Cut(page, "<"+element+">")
	content, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// isDNSRebinding reports whether a request at a loopback address is for a name that is not
// this host's. A page from another site could make its name resolve to the reader's loopback
// address (DNS rebinding), and read clients' names and the metrics. Requests at other
// addresses may use any name that the administrator chose.
func isDNSRebinding(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !at.IP.IsLoopback() {
		return false
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if net.ParseIP(host) != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return false
	}
	own, err := os.Hostname()
	return err != nil || !strings.EqualFold(host, own)
}

// rejectRebinding wraps a handler, and rejects requests that look like DNS rebinding.
func rejectRebinding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isDNSRebinding(r) {
			http.Error(w, "wrong host name for a loopback address: open http://localhost, with the port of --metrics", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// servePage serves the live page, with the curves of the export or client that the request names.
func (src *Source) servePage(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	v := newLiveView(src.CollectStatus(), src.CollectClients(), src.collectLiveHeld(), time.Now())
	v.History = newLiveHistory(src.History, parseSubject(r.URL.Query()))
	if err := liveTemplate().Execute(&b, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", contentPolicy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes())
}
