package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
)

const (
	callTraceWrite = 10 * time.Second       // for a reader to take a line
	locateTimeout  = 100 * time.Millisecond // for an object's path
	locateFresh    = time.Second            // a path this recent is used again
	maxLocated     = 1024                   // paths that a trace keeps
)

// serveCallTrace sends calls to an nfsrdmad trace command until it ends, one JSON object per line.
func (p *runningDaemon) serveCallTrace(w http.ResponseWriter, req *http.Request) {
	filter, err := parseCallFilter(req.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	reader, err := p.callTraces.addReader(filter)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer p.callTraces.removeReader(reader)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	send := func(line any) bool {
		_ = control.SetWriteDeadline(time.Now().Add(callTraceWrite))
		if line != nil && lines.Encode(line) != nil {
			return false
		}
		return len(reader.queue) > 0 || control.Flush() == nil
	}
	if !send(nil) {
		return
	}
	where := newObjectLocator(p.server.Parts().Exports)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-req.Context().Done():
			return
		case <-tick.C:
			if n := reader.dropped.Swap(0); n > 0 && !send(report.DroppedLine(n)) {
				return
			}
		case c := <-reader.queue:
			line := c.TracedCall // readers may locate it at the same time
			where.locate(req.Context(), &line, c.handle)
			if filter.matchesPlace(&line) && !send(&line) {
				return
			}
		}
	}
}

// An objectLocator finds the paths of objects for a trace. An export that hangs delays it only once,
// until it responds again.
type objectLocator struct {
	exports *exportset.Set
	known   map[string]knownLocation // by file handle
	late    map[string]chan struct{} // by export; closed when a late search has ended
}

type knownLocation struct {
	exportset.Location
	since time.Time
}

func newObjectLocator(set *exportset.Set) *objectLocator {
	return &objectLocator{exports: set, known: make(map[string]knownLocation), late: make(map[string]chan struct{})}
}

// locate completes a call with a file handle.
func (o *objectLocator) locate(ctx context.Context, c *report.TracedCall, fh []byte) {
	if len(fh) == 0 {
		return
	}
	l := o.find(ctx, fh)
	if c.Export == "" {
		c.Export = l.Export
	}
	c.Path, c.FileID = l.Path, l.FileID
	if c.Path == "" && c.FileID == 0 {
		c.Handle = hex.EncodeToString(fh)
	}
}

func (o *objectLocator) find(ctx context.Context, fh []byte) exportset.Location {
	if k, ok := o.known[string(fh)]; ok && time.Since(k.since) < locateFresh {
		return k.Location
	}
	if len(o.known) >= maxLocated {
		clear(o.known)
	}
	export := o.exports.LocateExport(fh)
	if done := o.late[export]; done != nil {
		select {
		case <-done:
			delete(o.late, export)
		default:
			return exportset.Location{Export: export}
		}
	}
	done := make(chan struct{})
	var l exportset.Location
	go func() {
		defer close(done)
		l = o.exports.Locate(ctx, fh)
	}()
	timeout := time.NewTimer(locateTimeout)
	defer timeout.Stop()
	select {
	case <-done:
		o.known[string(fh)] = knownLocation{l, time.Now()}
		return l
	case <-timeout.C:
		o.late[export] = done
		return exportset.Location{Export: export}
	}
}
