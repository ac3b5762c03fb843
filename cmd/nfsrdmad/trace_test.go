package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// A fakeSpanCollector takes spans over OTLP/HTTP.
type fakeSpanCollector struct {
	mu       sync.Mutex
	spans    map[string][]*tracepb.Span // by name
	resource map[string]string
	text     []byte // all that came
}

// newSpanCollector starts a collector, which the environment names to daemons until the test
// ends.
func newSpanCollector(t *testing.T) *fakeSpanCollector {
	t.Helper()
	c := &fakeSpanCollector{spans: make(map[string][]*tracepb.Span)}
	receiver := httptest.NewUnstartedServer(c)
	receiver.Config.SetKeepAlivesEnabled(false) // no connection stays, which the daemon's end would be blamed for
	receiver.Start()
	t.Cleanup(receiver.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Test=yes")
	return c
}

// ServeHTTP takes an ExportTraceServiceRequest, which has the form of TracesData.
func (c *fakeSpanCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Test") != "yes" || proto.Unmarshal(b, &data) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b...)
	for _, rs := range data.ResourceSpans {
		c.resource = attributeMap(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans[s.Name] = append(c.spans[s.Name], s)
			}
		}
	}
}

func attributeMap(list []*commonpb.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, kv := range list {
		all[kv.Key] = kv.Value.GetStringValue()
	}
	return all
}

// TestTrace serves calls of versions 3 and 4, and reads their spans from a collector.
func TestTrace(t *testing.T) {
	c := newSpanCollector(t)
	t.Setenv("OTEL_SERVICE_NAME", "a server")
	t.Run("served", func(t *testing.T) { // the daemon's end sends the last spans
		s := startDaemon(t, "--trace", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", t.TempDir()+"=/secret")
		conn, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
		require.NoError(t, err)
		defer conn.Close()
		args := (&mount3.PathArgs{Path: []byte("/secret")}).AppendTo(nil)
		r := parseAccepted(t, tcpCall(t, conn, encodeCall(1, mount3.Program, mount3.Version, mount3.ProcMnt, args)), 1, 0)
		require.Zero(t, r.Uint32())
		root := (&nfs3.HandleArgs{Object: nfs3.FH(r.Opaque(64))}).AppendTo(nil)
		parseAccepted(t, tcpCall(t, conn, encodeCall(2, nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, root)), 2, 0)
		bad := (&nfs3.HandleArgs{Object: nfs3.FH("nothing")}).AppendTo(nil)
		parseAccepted(t, tcpCall(t, conn, encodeCall(3, nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, bad)), 3, 0)
		compound := (&nfs4.CompoundArgs{Minor: nfs4.Minor2, N: 1}).AppendTo(nil)
		compound = nfs4.AppendOp(compound, nfs4.OpSequence, new(nfs4.SequenceArgs))
		parseAccepted(t, tcpCall(t, conn, encodeCall(4, nfs4.Program, nfs4.Version, nfs4.ProcCompound, compound)), 4, 0)
	})

	assert.Equal(t, "a server", c.resource["service.name"])
	require.Len(t, c.spans["nfs/GETATTR"], 2)
	getattr, bad := c.spans["nfs/GETATTR"][0], c.spans["nfs/GETATTR"][1]
	about := attributeMap(getattr.Attributes)
	for key, want := range map[string]string{
		"rpc.system": "onc_rpc", "rpc.service": "nfs", "rpc.method": "GETATTR", "network.transport": "tcp", "network.peer.address": "127.0.0.1",
	} {
		assert.Equal(t, want, about[key], key)
	}
	assert.NotContains(t, about, "rpc.response.status_code")
	assert.Equal(t, tracepb.Span_SPAN_KIND_SERVER, getattr.Kind)
	assert.Equal(t, "NFS3ERR_BADHANDLE", attributeMap(bad.Attributes)["rpc.response.status_code"])
	assert.Equal(t, tracepb.Status_STATUS_CODE_UNSET, bad.Status.GetCode(), "the client's fault")

	part := func(name string, of *tracepb.Span) *tracepb.Span {
		for _, s := range c.spans[name] {
			if string(s.ParentSpanId) == string(of.SpanId) {
				assert.Equal(t, of.TraceId, s.TraceId, name)
				assert.GreaterOrEqual(t, s.StartTimeUnixNano, of.StartTimeUnixNano, name)
				assert.LessOrEqual(t, s.EndTimeUnixNano, of.EndTimeUnixNano, name)
				return s
			}
		}
		return nil
	}
	program := part("program", getattr)
	require.NotNil(t, program)
	assert.NotNil(t, part("receive", getattr))
	assert.NotNil(t, part("send", getattr))
	files := part("files", program)
	require.NotNil(t, files)
	assert.Equal(t, "/secret", attributeMap(files.Attributes)["nfsrdma.export"])
	assert.Nil(t, part("files", part("program", bad)), "no file system was asked")

	require.Len(t, c.spans["SEQUENCE"], 1)
	assert.Equal(t, "NFS4ERR_BADSESSION", attributeMap(c.spans["SEQUENCE"][0].Attributes)["rpc.response.status_code"])
}

// A fakeHungExporter takes no spans until its end.
type fakeHungExporter struct {
	tracetest.NoopExporter
	begun chan struct{}
}

// ExportSpans waits for ctx.
func (e *fakeHungExporter) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	e.begun <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// TestTraceHung checks that a collector that does not answer holds up no call, and that the
// spans that it does not take are bounded and counted.
func TestTraceHung(t *testing.T) {
	const most, calls = 64, 500
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "50") // ms
	e := &fakeHungExporter{begun: make(chan struct{}, 1000)}
	tr, err := newTracer(t.Context(), e)
	require.NoError(t, err)
	for range calls {
		traceOneCall(tr)
		assert.LessOrEqual(t, tr.counts.waiting.Load(), int64(most))
	}
	<-e.begun
	tr.close()
	c := tr.spanStatus()
	assert.Zero(t, c.Sent)
	assert.Positive(t, c.Dropped)
	assert.Positive(t, c.Failed)
	assert.EqualValues(t, calls*4, c.Dropped+c.Failed+uint64(c.Waiting), "each span counts once")
}

// traceOneCall takes a call through the stages.
func traceOneCall(tr *tracer) {
	rep := &oncrpc.Reply{Trace: tr.newCallTrace()}
	msg := encodeCall(1, nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, nil)
	tracedService{rpcstats.NewObserver(fakeProgram{})}.Serve(context.Background(), &oncrpc.Request{Msg: msg, Peer: new(oncrpc.Peer)}, rep)
	rep.EndTrace()
}

// A fakeProgram is a Service of one stage.
type fakeProgram struct{}

func (fakeProgram) Serve(_ context.Context, _ *oncrpc.Request, rep *oncrpc.Reply) bool {
	if rep.Trace != nil {
		rep.Trace.Begin(oncrpc.StageProgram)
		rep.Trace.End(oncrpc.StageProgram, "", "")
	}
	return true
}

// TestTraceSampled checks that calls that the sampler does not want reach no room below
// with a Trace, and make no spans.
func TestTraceSampled(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	kept := tracetest.NewInMemoryExporter()
	tr, err := newTracer(t.Context(), kept)
	require.NoError(t, err)
	traceOneCall(tr)
	require.NoError(t, tr.provider.ForceFlush(t.Context()))
	assert.Empty(t, kept.GetSpans())
	tr.close()

	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	tr, err = newTracer(t.Context(), kept)
	require.NoError(t, err)
	traceOneCall(tr)
	require.NoError(t, tr.provider.ForceFlush(t.Context()))
	assert.Len(t, kept.GetSpans(), 4)
	tr.close()
}

// TestTraceProtocol checks that a protocol that the daemon does not have shows at its start.
func TestTraceProtocol(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	_, err := openTracer(t.Context(), slog.New(slog.DiscardHandler))
	assert.ErrorContains(t, err, "http/protobuf")
}
