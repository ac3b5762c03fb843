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

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

const (
	// traceQueue is how many spans wait for the collector at most, those that are being
	// sent included, unless OTEL_BSP_MAX_QUEUE_SIZE says otherwise.
	traceQueue = 2048

	// traceEnd is how long the daemon's end waits for a collector to take the last spans.
	traceEnd = 2 * time.Second
)

// A tracer makes spans of calls and sends them to a collector (--trace). Nobody waits for
// the collector: spans beyond a bound are dropped and counted. A nil tracer does nothing.
type tracer struct {
	provider *sdktrace.TracerProvider
	spans    trace.Tracer
	counts   spanCounts
}

// spanCounts count spans by what became of them.
type spanCounts struct {
	waiting               atomic.Int64
	sent, dropped, failed atomic.Uint64 // dropped: too many waited; failed: the collector did not take them
}

// openTracer returns the tracer of --trace. The collector, the sampler and more are those
// of OpenTelemetry's environment variables.
func openTracer(ctx context.Context, log *slog.Logger) (*tracer, error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && p != "http/protobuf" {
			return nil, fmt.Errorf("--trace: %s is %q, and nfsrdmad has http/protobuf alone: set that, and the collector's port for it (4318)", name, p)
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(traceErrors(lograte.Logger(log))))
	return newTracer(ctx, exporter)
}

// traceErrors returns a function that logs the errors of an exporter.
func traceErrors(log *slog.Logger) func(error) {
	return func(err error) {
		log.Warn("spans are lost; is OTEL_EXPORTER_OTLP_ENDPOINT the collector's address?", "err", err)
	}
}

func newTracer(ctx context.Context, exporter sdktrace.SpanExporter) (*tracer, error) {
	most := traceQueue
	if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		most = n
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "nfsrdmad"), attribute.String("service.version", cli.VersionString(version))),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv()) // the last one decides
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	t := new(tracer)
	queue := sdktrace.NewBatchSpanProcessor(&countingExporter{exporter, &t.counts}, sdktrace.WithMaxQueueSize(most))
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithSpanProcessor(&boundedQueue{queue, &t.counts, int64(most)}))
	t.spans = t.provider.Tracer("github.com/nfsrdma/nfsrdma/cmd/nfsrdmad", trace.WithInstrumentationVersion(cli.VersionString(version)))
	return t, nil
}

// traceDoc is the part of status for --trace: spans.
type traceDoc struct {
	Waiting int64  `json:"waiting"`
	Sent    uint64 `json:"sent"`
	Dropped uint64 `json:"dropped"`
	Failed  uint64 `json:"failed"`
}

// status returns nil without a tracer.
func (t *tracer) status() *traceDoc {
	if t == nil {
		return nil
	}
	c := &t.counts
	return &traceDoc{c.waiting.Load(), c.sent.Load(), c.dropped.Load(), c.failed.Load()}
}

// close sends the last spans.
func (t *tracer) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), traceEnd)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // an error has been told to traceErrors
}

// A boundedQueue is a queue of spans that drops, and counts, what is above a bound.
type boundedQueue struct {
	sdktrace.SpanProcessor
	counts *spanCounts
	most   int64
}

// OnEnd takes a span (sdktrace.SpanProcessor).
func (q *boundedQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if q.counts.waiting.Add(1) > q.most {
		q.counts.waiting.Add(-1)
		q.counts.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// A countingExporter counts what becomes of the spans of a boundedQueue.
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

// follow returns the Trace of a call that has just arrived.
func (t *tracer) follow() oncrpc.Trace { return &callTrace{tracer: t, arrived: time.Now()} }

// A tracedService names the spans of calls for which another Service is.
type tracedService struct {
	oncrpc.Service
}

// Serve answers a call (oncrpc.Service).
func (s tracedService) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	c, ok := rep.Trace.(*callTrace)
	p, known := rpcmsg.ProcedureOf(req.Msg)
	if !ok || !known || !c.begin(p, req) {
		rep.Trace = nil // nobody wants it
		return s.Service.Serve(ctx, req, rep)
	}
	answer = s.Service.Serve(ctx, req, rep)
	c.answered(answer, rep)
	return answer
}

// Resumes reports Resumes of the Service behind s.
func (s tracedService) Resumes() bool { return oncrpc.Resumes(s.Service) }
