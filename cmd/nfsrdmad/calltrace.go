package main

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// Limits for nfsrdmad trace.
const (
	maxCallTraces  = 4    // commands at once
	callTraceQueue = 1024 // calls that wait for a command
	callTraceRate  = 5000 // calls a second for a command
	maxTracedOps   = 64   // operations of a COMPOUND
)

// errManyTraces is the reason why there is no further trace.
var errManyTraces = errors.New("other nfsrdmad trace commands are running: end one of them")

// callTraces passes calls to the nfsrdmad trace commands that are running. Without any, a call
// costs one atomic load. A call never waits for a command: what does not fit into a command's queue
// is dropped and counted.
type callTraces struct {
	active atomic.Pointer[[]*callReader] // nil: none
	mu     sync.Mutex                    // guards changes of active
}

// A callReader is a running nfsrdmad trace command.
type callReader struct {
	filter  callFilter
	queue   chan *tracedCall
	dropped atomic.Uint64

	second atomic.Int64 // in which counted calls were queued
	count  atomic.Int64
}

// addReader adds a reader, which the caller must remove.
func (t *callTraces) addReader(f callFilter) (*callReader, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.readers()
	if len(list) >= maxCallTraces {
		return nil, errManyTraces
	}
	r := &callReader{filter: f, queue: make(chan *tracedCall, callTraceQueue)}
	list = append(slices.Clone(list), r)
	t.active.Store(&list)
	return r, nil
}

func (t *callTraces) removeReader(r *callReader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(t.readers()), func(other *callReader) bool { return other == r })
	if len(list) == 0 {
		t.active.Store(nil)
		return
	}
	t.active.Store(&list)
}

func (t *callTraces) readers() []*callReader {
	if list := t.active.Load(); list != nil {
		return *list
	}
	return nil
}

// offer queues a call, or drops it.
func (r *callReader) offer(c *tracedCall, now time.Time) {
	if second := now.Unix(); r.second.Swap(second) != second {
		r.count.Store(0)
	}
	if r.count.Add(1) <= callTraceRate {
		select {
		case r.queue <- c:
			return
		default:
		}
	}
	r.dropped.Add(1)
}

// A tracedCall is a call for nfsrdmad trace (oncrpc.Trace). It is not changed after Done.
type tracedCall struct {
	readers []*callReader
	program *report.Program // nil: unknown program
	proc    uint32
	handle  []byte

	mu   sync.Mutex // the transport may call Done while a goroutine of a program still calls End
	done bool
	report.TracedCall
}

func newTracedCall(readers []*callReader) *tracedCall {
	return &tracedCall{readers: readers, TracedCall: report.TracedCall{Time: time.Now()}}
}

// beginCall records a completely received call. It returns false if no reader wants it.
func (c *tracedCall) beginCall(p rpcmsg.Procedure, req *oncrpc.Request) bool {
	if c.Program != "" {
		return false // it is served already
	}
	addr := req.Peer.Addr.Addr().Unmap()
	if !slices.ContainsFunc(c.readers, func(r *callReader) bool { return r.filter.matchesClient(addr) }) {
		return false
	}
	c.Client, c.Transport = addr.String(), req.Peer.Network
	c.Program, c.Procedure = "other", "other"
	if program := findProgram(p); program != nil {
		proc := p.Proc
		if of := program.ProcOf; of != nil {
			proc = of(p.Proc, req.Msg)
		}
		s := rpcstats.ProcStats{Prog: p.Prog, Vers: p.Vers, Proc: proc}
		c.Program, c.Procedure = report.ProcNames(&s)
		c.program, c.proc = program, proc
	}
	fh, name := parseObject(p, req.Msg)
	c.handle, c.Name = slices.Clone(fh), string(name)
	c.BytesIn = uint64(len(req.Msg) + len(req.Item))
	return true
}

// recordReply records the reply, which is about to be sent.
func (c *tracedCall) recordReply(answer bool, rep *oncrpc.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return
	}
	c.BytesRead, c.BytesWritten = rep.Work.Read, rep.Work.Written
	if !answer {
		c.Status, c.Failed = "no reply", true
		return
	}
	c.BytesOut = uint64(rep.Len())
	o := rpcstats.OutcomeOf(rep.Head, c.program != nil && c.program.HasStatus(c.proc))
	switch {
	case o == rpcstats.Outcome{}:
		c.Status = "OK"
		return
	case o.Kind == rpcstats.OutcomeStatus:
		c.Status = c.program.StatusName(o.Code)
	default:
		c.Status = o.String()
	}
	c.Failed = true
}

// Begin does nothing (oncrpc.Trace).
func (c *tracedCall) Begin(oncrpc.Stage) {}

// End records an operation, or the export (oncrpc.Trace).
func (c *tracedCall) End(s oncrpc.Stage, name, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.done || c.Program == "":
	case s == oncrpc.StageFiles:
		c.Export = name
	case s == oncrpc.StageOperation && len(c.Operations) < maxTracedOps:
		c.Operations = append(c.Operations, report.TracedOperation{Name: name, Status: status})
	}
}

// Done passes the call to the readers (oncrpc.Trace).
func (c *tracedCall) Done() {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done || c.Program == "" || c.Status == "" {
		return
	}
	c.done = true
	c.Seconds = now.Sub(c.Time).Seconds()
	for _, r := range c.readers {
		if r.filter.matchesCall(&c.TracedCall) {
			r.offer(c, now)
		}
	}
}

// traces are the traces of one call, for OpenTelemetry and for nfsrdmad trace.
type traces [2]callRecorder

func (t traces) Begin(s oncrpc.Stage) {
	for _, c := range t {
		c.Begin(s)
	}
}

func (t traces) End(s oncrpc.Stage, name, status string) {
	for _, c := range t {
		c.End(s, name, status)
	}
}

func (t traces) Done() {
	for _, c := range t {
		c.Done()
	}
}

func (t traces) beginCall(p rpcmsg.Procedure, req *oncrpc.Request) bool {
	first, second := t[0].beginCall(p, req), t[1].beginCall(p, req)
	return first || second
}

func (t traces) recordReply(answer bool, rep *oncrpc.Reply) {
	for _, c := range t {
		c.recordReply(answer, rep)
	}
}
