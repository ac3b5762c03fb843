package rpcrdma

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	rpcwire "github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// golden has headers from Linux, and computed ones (R8166-4-1, R8166-4.2-1,
// R8166-4.2.2-1, R8166-3.2-1).
var golden = []struct {
	file string
	xid  uint32
	hdr  rpcwire.Header // without the lists
	body int            // bytes in the RPC message
}{
	{"testdata/null-call.hex", 0xf984739a, rpcwire.Header{Credit: 128, Proc: rpcwire.Msg}, 40},
	{"testdata/null-reply.hex", 0xf984739a, rpcwire.Header{Credit: 64, Proc: rpcwire.Msg}, 24},
	{"testdata/reply-chunk-call.hex", 0x0285739a, rpcwire.Header{Credit: 128, Proc: rpcwire.Msg}, 100},
	{"testdata/reply-chunk-reply.hex", 0x0285739a, rpcwire.Header{Credit: 64, Proc: rpcwire.NoMsg}, 0},
	{"testdata/write-chunk-call.hex", 0x0585739a, rpcwire.Header{Credit: 128, Proc: rpcwire.Msg}, 100},
	{"testdata/write-chunk-reply.hex", 0x0585739a, rpcwire.Header{Credit: 64, Proc: rpcwire.Msg}, 128},
	{"testdata/read-chunk-call.hex", 0x0985739a, rpcwire.Header{Credit: 128, Proc: rpcwire.Msg}, 108},
	{"testdata/position-zero-call.hex", 0x2aced9d5, rpcwire.Header{Credit: 128, Proc: rpcwire.NoMsg}, 0},
	{"testdata/two-segments.hex", 0x01020304, rpcwire.Header{Credit: 32, Proc: rpcwire.Msg}, 0},
}

func TestHeaderGolden(t *testing.T) {
	var h rpcwire.Header // reused, as by a connection
	for _, tt := range golden {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, tt.file)
			body, err := h.ParseCall(wire)
			require.NoError(t, err)
			assert.Equal(t, tt.xid, h.XID)
			assert.EqualValues(t, rpcwire.Version, h.Vers)
			assert.Equal(t, tt.hdr.Credit, h.Credit)
			assert.Equal(t, tt.hdr.Proc, h.Proc)
			assert.Len(t, body, tt.body)
			assert.Equal(t, wire[:len(wire)-len(body)], h.AppendTo(nil))
			for n := range len(wire) - len(body) { // cut at every byte
				_, err := h.ParseCall(wire[:n])
				if n < 28 { // R8166-4.5-1
					assert.ErrorIs(t, err, rpcwire.ErrRunt, n)
				} else {
					assert.ErrorIs(t, err, chunks.ErrShort, n)
				}
			}
		})
	}
}

// R8166-4.5-4, R8166-4.5-5, R8166-4.5-6, R8166-4.5.1-1.
func TestErrorGolden(t *testing.T) {
	vers := rpcwire.Header{XID: 0x01020304, Vers: 2, Credit: 32, Proc: rpcwire.Error, Code: rpcwire.ErrVers, Low: 1, High: 1}
	assert.Equal(t, wiretest.Hex(t, "testdata/err-vers.hex"), vers.AppendTo(nil))
	chunk := rpcwire.Header{XID: 0x01020304, Vers: 1, Credit: 32, Proc: rpcwire.Error, Code: rpcwire.ErrChunk}
	assert.Equal(t, wiretest.Hex(t, "testdata/err-chunk.hex"), chunk.AppendTo(nil))
}

func TestParseCallErrors(t *testing.T) {
	const lists = " 00000000 00000000 00000000"
	for _, tt := range []struct {
		name   string
		wire   string
		field  string
		offset int
		err    error
		code   rpcwire.ErrCode // 0: dropped
	}{
		{"R8166-4.5-1 runt", "01020304 00000001 00000020 00000000 00000000 00000000 000000", "rdma_msg", 0, rpcwire.ErrRunt, 0},
		{"R8166-4.5.1-1 version 0", "01020304 00000000 00000020 00000000" + lists, "rdma_vers", 4, rpcwire.ErrVersion, rpcwire.ErrVers},
		{"R8166-4.5.1-1 version 2", "01020304 00000002 00000020 00000000" + lists, "rdma_vers", 4, rpcwire.ErrVersion, rpcwire.ErrVers},
		{"R8166-4.5.1-1 version ffffffff", "01020304 ffffffff 00000020 00000003" + lists, "rdma_vers", 4, rpcwire.ErrVersion, rpcwire.ErrVers},
		{"R8166-4.6.1-2 RDMA_MSGP", "01020304 00000001 00000020 00000002" + lists, "rdma_proc", 12, rpcwire.ErrProc, rpcwire.ErrChunk},
		{"R8166-4.6.2-2 RDMA_DONE", "01020304 00000001 00000020 00000003" + lists, "rdma_proc", 12, rpcwire.ErrDiscard, 0},
		{"R8166-4.2.4-4 RDMA_ERROR", "01020304 00000001 00000020 00000004" + lists, "rdma_proc", 12, rpcwire.ErrDiscard, 0},
		{"R8166-4.2.4-4 RDMA_ERROR of another version", "01020304 00000002 00000020 00000004" + lists, "rdma_proc", 12, rpcwire.ErrDiscard, 0},
		{"R8166-4.5.2-1 procedure 5", "01020304 00000001 00000020 00000005" + lists, "rdma_proc", 12, rpcwire.ErrProc, rpcwire.ErrChunk},
		{
			"R8166-4.5.2-1 presence of the reply chunk", "01020304 00000001 00000020 00000000 00000000 00000000 00000002",
			"rdma_reply", 28, chunks.ErrPresence, rpcwire.ErrChunk,
		},
		{
			"R8166-4.5.2-1 list without an end", "01020304 00000001 00000020 00000000 00000001 00000000 00000000",
			"rdma_reads", 20, chunks.ErrShort, rpcwire.ErrChunk,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h rpcwire.Header
			_, err := h.ParseCall(wiretest.Bytes(t, tt.wire))
			require.ErrorIs(t, err, tt.err)
			var e *rpcwire.HeaderError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.field, e.Field)
			assert.Equal(t, tt.offset, e.Offset)
			assert.ErrorContains(t, err, tt.field)
			if tt.err != rpcwire.ErrRunt {
				assert.EqualValues(t, 0x01020304, e.XID)
				assert.EqualValues(t, 0x01020304, h.XID)
			}
			code, answer := answerFor(err)
			assert.Equal(t, tt.code, code)
			assert.Equal(t, tt.code != 0, answer)
		})
	}
}

// R8166-4.2.4-1.
func TestNames(t *testing.T) {
	for n, name := range []string{"RDMA_MSG", "RDMA_NOMSG", "RDMA_MSGP", "RDMA_DONE", "RDMA_ERROR", "Proc(5)"} {
		assert.Equal(t, name, rpcwire.Proc(n).String())
	}
	for n, name := range []string{"ErrCode(0)", "ERR_VERS", "ERR_CHUNK"} {
		assert.Equal(t, name, rpcwire.ErrCode(n).String())
	}
}

func TestHeaderAllocs(t *testing.T) {
	var h rpcwire.Header
	out := make([]byte, 0, 256)
	for _, tt := range golden {
		wire := wiretest.Hex(t, tt.file)
		run := func() {
			_, _ = h.ParseCall(wire)
			out = h.AppendTo(out[:0])
		}
		run()
		assert.Zero(t, testing.AllocsPerRun(100, run), tt.file)
	}
}

func FuzzParseCall(f *testing.F) {
	for _, tt := range golden {
		f.Add(wiretest.Hex(f, tt.file))
	}
	f.Add(wiretest.Hex(f, "testdata/err-vers.hex"))
	for _, wire := range hostileMessages(f) {
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h rpcwire.Header
		body, err := h.ParseCall(b)
		if err != nil {
			var e *rpcwire.HeaderError
			require.ErrorAs(t, err, &e)
			assert.True(t, e.Offset >= 0 && e.Offset <= len(b))
			return
		}
		assert.Equal(t, b[:len(b)-len(body)], h.AppendTo(nil))
	})
}

// BenchmarkHeader decodes a call's header and encodes it.
func BenchmarkHeader(b *testing.B) {
	for _, name := range []string{"null-call", "write-chunk-call", "read-chunk-call", "two-segments"} {
		b.Run(name, func(b *testing.B) {
			wire := wiretest.Hex(b, "testdata/"+name+".hex")
			var h rpcwire.Header
			_, err := h.ParseCall(wire)
			require.NoError(b, err)
			out := make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = h.ParseCall(wire)
				out = h.AppendTo(out[:0])
			}
		})
	}
}
