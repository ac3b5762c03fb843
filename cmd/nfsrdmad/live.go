package main

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

// livePage is the page at --metrics, with its style and its script. It is a plain
// table without the script, which shows rates.
//
//go:embed live.html
var livePage string

// maxLive bounds the connections, and the clients, that the live page lists.
const maxLive = 200

// A view is what the live page shows: the documents of status and clients at one
// time, and sums over them.
type view struct {
	*statusDoc
	Holders *clientsDoc
	At      time.Time
	Up      time.Duration

	Calls, In, Out uint64 // of all procedures
	UnderWay       int
	Words          []notice
}

func newView(d *statusDoc, holders *clientsDoc, at time.Time) *view {
	v := &view{statusDoc: d, Holders: holders, At: at, Up: at.Sub(d.Daemon.Since), Words: attention(d, holders, at)}
	for i := range d.Procedures {
		p := &d.Procedures[i]
		v.Calls += p.Calls
		v.In += p.BytesIn
		v.Out += p.BytesOut
	}
	for i := range d.Connections {
		v.UnderWay += d.Connections[i].CallsUnderWay
	}
	return v
}

// FirstConnections are the connections that the page lists.
func (v *view) FirstConnections() []connDoc {
	return v.Connections[:min(len(v.Connections), maxLive)]
}

// MoreConnections counts the connections that FirstConnections leaves out.
func (v *view) MoreConnections() int { return max(len(v.Connections)-maxLive, 0) }

// FirstHolders are the first clients with files or locks.
func (v *view) FirstHolders() []clientDoc {
	return v.Holders.Clients[:min(len(v.Holders.Clients), maxLive)]
}

// MoreHolders counts the clients that FirstHolders leaves out.
func (v *view) MoreHolders() int { return max(v.Holders.Total-maxLive, 0) }

// A shape is a picture of a procedure's latencies: a bar for each class of
// rpcstats.LatencyBounds.
type shape struct {
	Width int
	Bars  []bar
	Words string
}

type bar struct{ X, Y, Height int }

// shapeHeight is the height of the highest bar, and barWidth how far one is from the
// next, in the picture's units.
const (
	shapeHeight = 20
	barWidth    = 10
)

func shapeOf(c procDoc) *shape {
	var most uint64
	for _, l := range c.Latency {
		most = max(most, l.Calls)
	}
	if most == 0 {
		return nil
	}
	s := &shape{Width: (len(rpcstats.LatencyBounds) + 1) * barWidth}
	var words []string
	for _, l := range c.Latency {
		class := len(rpcstats.LatencyBounds)
		name := "more"
		for i, b := range rpcstats.LatencyBounds {
			if l.Seconds == b.Seconds() {
				class, name = i, "up to "+short(b)
			}
		}
		height := max(int(l.Calls*shapeHeight/most), 1)
		s.Bars = append(s.Bars, bar{class*barWidth + 1, shapeHeight - height, height})
		words = append(words, name+": "+strconv.FormatUint(l.Calls, 10))
	}
	s.Words = strings.Join(words, ", ")
	return s
}

// perSecond is an average since the start, which may have been a moment ago.
func perSecond(n uint64, up time.Duration) float64 {
	return float64(n) / max(up.Seconds(), 1)
}

// live is parsed by the first reader of the page, not by each command of the program.
var live = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("live").Funcs(template.FuncMap{
		"size": size, "span": span, "printable": printable, "shape": shapeOf,
		"u":         func(n int64) uint64 { return uint64(max(n, 0)) },
		"ago":       func(t time.Time) string { return span(time.Since(t)) },
		"seconds":   func(s float64) string { return span(time.Duration(s * float64(time.Second))) },
		"rate":      func(n uint64, up time.Duration) string { return strconv.FormatFloat(perSecond(n, up), 'f', 1, 64) },
		"bytesRate": func(n uint64, up time.Duration) string { return size(uint64(perSecond(n, up))) },
		"words":     func(d securityDoc) string { return d.words() },
		"agreed":    func(d *rdmaConnDoc) string { return d.agreed() },
		"mean":      func(c procDoc) string { return short(c.mean()) },
		"below":     func(c procDoc, percent uint64) string { return c.below(percent) },
	}).Parse(livePage))
})

// policy is the Content-Security-Policy of the live page: nothing but its own style
// and script, and the page itself again.
var policy = sync.OnceValue(func() string {
	var b bytes.Buffer
	if err := live().Execute(&b, newView(new(statusDoc), new(clientsDoc), time.Now())); err != nil {
		panic(err)
	}
	return "default-src 'none'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src " +
		hashed(b.String(), "style") + "; script-src " + hashed(b.String(), "script")
})

// hashed returns the source expression for the content of the page's only element of
// a name.
func hashed(page, element string) string {
	_, rest, _ := strings.Cut(page, "<"+element+">")
	content, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// rebound reports whether a request at a loopback address is for a name that is not this
// host's. A page of another site may have its name lead to the loopback of whoever reads
// it (DNS rebinding), and could otherwise read the names of clients. Other addresses have
// names that only their administrator knows.
func rebound(r *http.Request) bool {
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

// servePage answers with the live page.
func (p *operations) servePage(w http.ResponseWriter, r *http.Request) {
	if rebound(r) {
		http.Error(w, "at a loopback address this page has no other name: open http://localhost, with the port of --metrics", http.StatusForbidden)
		return
	}
	var b bytes.Buffer
	if err := live().Execute(&b, newView(p.status(), p.clients(), time.Now())); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes())
}
