package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

const (
	// traceQueue is the maximum number of spans that wait for the collector, including those
	// being sent, unless OTEL_BSP_MAX_QUEUE_SIZE is set.
	traceQueue = 2048

	// traceShutdownTimeout is how long an exiting daemon waits until a collector has received
	// the last spans.
	traceShutdownTimeout = 2 * time.Second
)

// A tracer creates spans for calls and sends them to a collector (--trace). Calls never wait
// for the collector: spans beyond a limit are dropped and counted. A nil tracer does nothing.
type tracer struct {
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
	counts   spanCounts
}

// spanCounts counts spans by outcome.
type spanCounts struct {
	waiting               atomic.Int64
	sent, dropped, failed atomic.Uint64 // dropped: the queue was full; failed: not received by the collector
}

// openTracer returns the tracer for --trace. OpenTelemetry's environment variables select the
// collector, the sampler and more.
func openTracer(ctx context.Context, log *slog.Logger) (*tracer, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && p != "http/protobuf" {
			return nil, fmt.Errorf("--trace: %s is %q, but nfsrdmad supports only http/protobuf: set that, and the collector's port for it (4318)", name, p)
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(logTraceErrors(lograte.Logger(log))))
	return newTracer(ctx, exporter)
}

// logTraceErrors returns a function that logs the errors of an exporter.
func logTraceErrors(log *slog.Logger) func(error) {
	return func(err error) {
		log.Warn("cannot send spans; is OTEL_EXPORTER_OTLP_ENDPOINT the collector's address?", "err", err)
	}
}

func newTracer(ctx context.Context, exporter sdktrace.SpanExporter) (*tracer, error) {
	most := traceQueue
	if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		most = n
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "nfsrdmad"), attribute.String("service.version", buildinfo.Version(version))),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv()) // the last one takes precedence
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	t := new(tracer)
	queue := sdktrace.NewBatchSpanProcessor(&countingExporter{exporter, &t.counts}, sdktrace.WithMaxQueueSize(most))
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithSpanProcessor(&boundedQueue{queue, &t.counts, int64(most)}))
	t.spans = t.provider.Tracer("github.com/nfsrdma/nfsrdma/cmd/nfsrdmad", trace.WithInstrumentationVersion(buildinfo.Version(version)))
	return t, nil
}

// spanStatus returns the counts, or nil without a tracer.
func (t *tracer) spanStatus() *report.Spans {
	if t == nil {
		return nil
	}
	c := &t.counts
	return &report.Spans{Waiting: c.waiting.Load(), Sent: c.sent.Load(), Dropped: c.dropped.Load(), Failed: c.failed.Load()}
}

// close sends the last spans.
func (t *tracer) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), traceShutdownTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // logTraceErrors has logged an error
}

// A boundedQueue is a span queue that drops and counts spans above a limit.
type boundedQueue struct {
	sdktrace.SpanProcessor
	counts *spanCounts
	limit  int64
}

// OnEnd queues a span (sdktrace.SpanProcessor).
func (q *boundedQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.counts.waiting.Add(1) > q.limit {
		q.counts.waiting.Add(-1)
		q.counts.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// A countingExporter counts the spans of a boundedQueue by outcome.
type countingExporter struct {
	sdktrace.SpanExporter
	counts *spanCounts
}

// ExportSpans sends spans (sdktrace.SpanExporter).
func (e *countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.counts.waiting.Add(-int64(len(spans)))
	if n := uint64(len(spans)); err != nil {
		e.counts.failed.Add(n)
	} else {
		e.counts.sent.Add(n)
	}
	return err
}

// newCallTrace returns the Trace of a call that has just arrived.
func (t *tracer) newCallTrace() *callTrace { return &callTrace{tracer: t, arrived: time.Now()} }

// newCallTrace returns the Trace of a call that has just arrived, or nil if nobody traces calls.
func (p *runningDaemon) newCallTrace() oncrpc.Trace {
	readers := p.callTraces.active.Load()
	switch {
	case readers == nil && p.tracer == nil:
		return nil
	case readers == nil:
		return p.tracer.newCallTrace()
	case p.tracer == nil:
		return newTracedCall(*readers)
	}
	return traces{p.tracer.newCallTrace(), newTracedCall(*readers)}
}

// A callRecorder is a Trace that a tracedService tells of the call and of the reply.
type callRecorder interface {
	oncrpc.Trace

	// beginCall records a completely received call. It returns false if the call is not traced.
	beginCall(p rpcmsg.Procedure, req *oncrpc.Request) bool

	// recordReply records the reply, which is about to be sent, unless answer is false.
	recordReply(answer bool, rep *oncrpc.Reply)
}

// A tracedService is an Observer that describes its calls to their Traces.
type tracedService struct {
	*rpcstats.Observer
}

// Serve serves a call (oncrpc.Service).
func (s tracedService) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	if rep.Trace == nil {
		return s.Observer.Serve(ctx, req, rep)
	}
	c, ok := rep.Trace.(callRecorder)
	p, known := rpcmsg.ProcedureOf(req.Msg)
	if !ok || !known || !c.beginCall(p, req) {
		rep.Trace = nil // not traced
		return s.Observer.Serve(ctx, req, rep)
	}
	answer = s.Observer.Serve(ctx, req, rep)
	c.recordReply(answer, rep)
	return answer
}
