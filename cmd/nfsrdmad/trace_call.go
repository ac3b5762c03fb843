package main

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// A callTrace creates the spans of one call (oncrpc.Trace). The call's own span lasts from its
// arrival until the reply has been sent. Its children are "receive", until the message is
// complete and is scheduled, "program", and "send"; the children of "program" are the
// operations of a COMPOUND, and "files", while a file system works for the call.
type callTrace struct {
	tracer  *tracer
	arrived time.Time

	mu      sync.Mutex // the transport may call Done while a goroutine of a program still calls End
	ctx     context.Context
	call    trace.Span // nil: not started
	stages  [oncrpc.NumStages]stageSpan
	send    trace.Span
	program *report.Program // nil: unknown program
	proc    uint32
}

// A stageSpan is the span of a stage, and the number of Begins without an End.
type stageSpan struct {
	trace.Span
	depth int
}

var stageNames = [oncrpc.NumStages]string{oncrpc.StageProgram: "program", oncrpc.StageOperation: "operation", oncrpc.StageFiles: "files"}

// beginCall starts the span of a completely received call. It returns false if the sampler
// drops the call.
func (c *callTrace) beginCall(p rpcmsg.Procedure, req *oncrpc.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call != nil {
		return false
	}
	service, method := "other", "other"
	if c.program = findProgram(p); c.program != nil {
		c.proc = p.Proc
		if of := c.program.ProcOf; of != nil {
			c.proc = of(p.Proc, req.Msg)
		}
		service, method = c.program.Name, c.program.ProcName(c.proc)
	}
	peer := req.Peer
	ctx, span := c.tracer.spans.Start(context.Background(), service+"/"+method, trace.WithTimestamp(c.arrived), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(
			attribute.String("rpc.system", "onc_rpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", method),
			attribute.Int64("onc_rpc.version", int64(p.Vers)),
			attribute.String("network.transport", peer.Network), attribute.String("network.peer.address", peer.Addr.Addr().String()),
			attribute.Int("network.peer.port", int(peer.Addr.Port())),
			attribute.Int("nfsrdma.call.size", len(req.Msg)+len(req.Item)),
		))
	if !span.IsRecording() {
		return false
	}
	c.ctx, c.call = ctx, span
	_, receive := c.tracer.spans.Start(ctx, "receive", trace.WithTimestamp(c.arrived))
	receive.End()
	return true
}

// findProgram returns a call's program, or nil if no known program has the procedure.
func findProgram(p rpcmsg.Procedure) *report.Program {
	for i := range report.Programs {
		if g := &report.Programs[i]; g.Prog == p.Prog && g.Vers == p.Vers && p.Proc < g.Procs {
			return g
		}
	}
	return nil
}

// recordReply records the attributes of the reply, which is about to be sent.
func (c *callTrace) recordReply(answer bool, rep *oncrpc.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !answer || c.call == nil {
		return
	}
	c.call.SetAttributes(attribute.Int("nfsrdma.reply.size", rep.Len()))
	status := c.program != nil && c.program.HasStatus(c.proc)
	if o := rpcstats.OutcomeOf(rep.Head, status); o != (rpcstats.Outcome{}) {
		word := o.String()
		if o.Kind == rpcstats.OutcomeStatus {
			word = c.program.StatusName(o.Code)
		}
		c.call.SetAttributes(attribute.String("rpc.response.status_code", word))
		if o.Kind != rpcstats.OutcomeStatus || serverFaults[word] {
			c.call.SetStatus(codes.Error, word)
		}
	}
	_, c.send = c.tracer.spans.Start(c.ctx, "send")
}

// serverFaults are the statuses that are the server's fault. Others, such as NFS3ERR_NOENT,
// are regular results.
var serverFaults = map[string]bool{"NFS3ERR_IO": true, "NFS3ERR_SERVERFAULT": true, "NFS4ERR_IO": true, "NFS4ERR_SERVERFAULT": true, "MNT3ERR_IO": true, "MNT3ERR_SERVERFAULT": true}

// Begin starts a stage (oncrpc.Trace).
func (c *callTrace) Begin(s oncrpc.Stage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := &c.stages[s]
	if at.depth++; c.call == nil || at.depth > 1 {
		return
	}
	parent := c.ctx
	if program := c.stages[oncrpc.StageProgram].Span; program != nil && s != oncrpc.StageProgram {
		parent = trace.ContextWithSpan(parent, program)
	}
	_, at.Span = c.tracer.spans.Start(parent, stageNames[s])
}

// End ends a stage (oncrpc.Trace).
func (c *callTrace) End(s oncrpc.Stage, name, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := &c.stages[s]
	if at.depth--; at.Span == nil || at.depth > 0 {
		return
	}
	switch s {
	case oncrpc.StageOperation:
		at.SetName(name)
		at.SetAttributes(attribute.String("nfs.operation.name", name), attribute.String("rpc.response.status_code", status))
	case oncrpc.StageFiles:
		at.SetAttributes(attribute.String("nfsrdma.export", name))
	}
	at.Span.End()
	at.Span = nil
}

// Done ends the spans (oncrpc.Trace).
func (c *callTrace) Done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call == nil {
		return
	}
	for i := range c.stages {
		if span := c.stages[i].Span; span != nil {
			span.End()
			c.stages[i].Span = nil
		}
	}
	if c.send != nil {
		c.send.End()
	}
	c.call.End()
	c.call = nil
}
