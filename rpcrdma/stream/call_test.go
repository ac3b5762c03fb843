package stream

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCalls checks that a call's record holds the whole message, whatever the
// call's form (R8166-3.4.5-1, R8267-6.4.2-2).
func TestCalls(t *testing.T) {
	item := patternBytes(4001)
	msg := callTo(testXID, procItem, encodeWord(9), encodeOpaque(item), encodeWord(7))
	short := callTo(testXID, procItem, encodeWord(9), encodeOpaque(item[:5]), encodeWord(7))
	empty := callTo(testXID, procItem, encodeWord(9), encodeOpaque(nil), encodeWord(7))
	const at = 48                // where the item starts
	behind := at + len(item) + 3 // where its padding starts
	pages := func(n int) (lengths []int) {
		for ; n > 16; n-- {
			lengths = append(lengths, 1)
		}
		return lengths
	}(31) // 15 single-byte segments
	for _, tt := range []struct {
		name string
		send func(q *requester)
		want []byte
	}{
		{"inline", func(q *requester) { q.sendCall(readListMsg(), short) }, short},
		{"a chunk", func(q *requester) {
			q.sendCall(readListMsg(q.readSegments(at, item)...), cutBytes(msg, at, behind))
		}, msg},
		{"a chunk of 16 segments", func(q *requester) {
			q.sendCall(readListMsg(q.readSegments(at, item, append(pages, len(item)-15)...)...), cutBytes(msg, at, behind))
		}, msg},
		{"a chunk with its padding", func(q *requester) {
			q.sendCall(readListMsg(q.readSegments(at, msg[at:behind])...), cutBytes(msg, at, behind))
		}, msg},
		{"an empty chunk", func(q *requester) {
			q.sendCall(readListMsg(q.readSegments(at, nil, 0)...), empty)
		}, empty},
		{"position zero", func(q *requester) {
			q.sendCall(newNoMsg(chunks.Lists{Reads: q.readSegments(0, msg)}), nil)
		}, msg},
		{"position zero and a chunk, of 16 segments each", func(q *requester) {
			rest := cutBytes(msg, at, behind)
			reads := q.readSegments(0, rest, append(pages, len(rest)-15)...)
			reads = append(reads, q.readSegments(at, item, append(pages, len(item)-15)...)...)
			q.sendCall(newNoMsg(chunks.Lists{Reads: reads}), nil)
		}, msg},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withListener(t, nil, func(t *testing.T, r *testListener) {
				q := r.dialLinux()
				var c net.Conn
				for _, by := range []func(io.Reader) io.Reader{sameReader, iotest.OneByteReader} {
					if tt.send(q); c == nil {
						c = r.acceptConn()
					}
					assert.Equal(t, tt.want, readRecord(t, by(c)))
					writeAll(t, c, recordFragments(successReply(testXID)))
					assert.Equal(t, wire.Msg, q.onlyAnswer().Proc)
				}
			})
		})
	}
}

func sameReader(r io.Reader) io.Reader { return r }

// readListMsg is msg with nothing but a Read list.
func readListMsg(reads ...chunks.ReadSegment) wire.Header { return newMsg(chunks.Lists{Reads: reads}) }

// cutBytes returns b without the bytes from i to j.
func cutBytes(b []byte, i, j int) []byte { return append(append([]byte{}, b[:i]...), b[j:]...) }

// TestReducedArguments checks that arguments that must not be moved, or
// whose length differs from the message's, never reach the server behind
// (R8166-3.4.2-1, R8166-6.1-2, R8166-4.5.2-2, R8267-4-2).
func TestReducedArguments(t *testing.T) {
	item := patternBytes(40)
	call := func(proc uint32) []byte {
		return callTo(testXID, proc, encodeWord(9), encodeWord(len(item)), encodeWord(7))
	}
	for name, send := range map[string]func(q *requester){
		"another procedure": func(q *requester) { q.sendCall(readListMsg(q.readSegments(48, item)...), call(procPlain)) },
		"no arguments":      func(q *requester) { q.sendCall(readListMsg(q.readSegments(40, item)...), callTo(testXID, procNull)) },
		"another item":      func(q *requester) { q.sendCall(readListMsg(q.readSegments(52, item)...), call(procItem)) },
		"the header":        func(q *requester) { q.sendCall(readListMsg(q.readSegments(40, item)...), call(procItem)) },
		"shorter":           func(q *requester) { q.sendCall(readListMsg(q.readSegments(48, item[:36])...), call(procItem)) },
		"longer":            func(q *requester) { q.sendCall(readListMsg(q.readSegments(48, patternBytes(44))...), call(procItem)) },
		"one more": func(q *requester) {
			q.sendCall(readListMsg(append(q.readSegments(48, item), q.readSegments(92, item)...)...), call(procItem))
		},
	} {
		t.Run(name, func(t *testing.T) {
			withListener(t, nil, func(t *testing.T, r *testListener) {
				q := r.dialLinux()
				send(q)
				a := q.onlyAnswer()
				assert.Equal(t, wire.Msg, a.Proc)
				assert.Equal(t, []byte{0, 0, 0, 4}, a.body[20:], "GARBAGE_ARGS")
				assert.Empty(t, r.conns)
			})
		})
	}
}

// TestScreen checks that the listener answers calls that the server
// behind does not have.
func TestScreen(t *testing.T) {
	change := func(at int, v uint32) []byte {
		b := callTo(testXID, procNull)
		binary.BigEndian.PutUint32(b[at:], v)
		return b
	}
	for name, tt := range map[string]struct {
		call []byte
		want []byte // from reply_stat on; nil: no answer
	}{
		"version above":   {change(16, testVers+1), joinBytes(encodeWord(0), encodeWord(0), encodeWord(0), encodeWord(2), encodeWord(testVers), encodeWord(testVers))},
		"version below":   {change(16, testVers-1), joinBytes(encodeWord(0), encodeWord(0), encodeWord(0), encodeWord(2), encodeWord(testVers), encodeWord(testVers))},
		"program":         {change(12, testProg+1), joinBytes(encodeWord(0), encodeWord(0), encodeWord(0), encodeWord(1))},
		"version of RPC":  {change(8, 3), joinBytes(encodeWord(1), encodeWord(0), encodeWord(2), encodeWord(2))},
		"long credential": {change(28, 404), joinBytes(encodeWord(1), encodeWord(1), encodeWord(1))},
		"cut":             {callTo(testXID, procNull)[:30], joinBytes(encodeWord(0), encodeWord(0), encodeWord(0), encodeWord(4))},
		"reply":           {change(4, 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			withListener(t, nil, func(t *testing.T, r *testListener) {
				q := r.dialLinux()
				q.sendCall(readListMsg(), tt.call)
				if tt.want == nil {
					assert.Empty(t, q.newAnswers())
				} else {
					assert.Equal(t, tt.want, q.onlyAnswer().body[8:])
				}
				assert.Empty(t, r.conns, "a connection is made with the first call for it")

				q.sendCall(readListMsg(), callTo(testXID, procNull))
				c := r.acceptConn()
				assert.Len(t, readRecord(t, c), 40)
				writeAll(t, c, recordFragments(successReply(testXID)))
				assert.Equal(t, wire.Msg, q.onlyAnswer().Proc)
			})
		})
	}
}

func joinBytes(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// TestVersions checks that all of a program's versions are reported.
func TestVersions(t *testing.T) {
	l := Listen(nil, testBinding{}, versionFive{})
	l.fallback.Log = testLog(t)
	var rep oncrpc.Reply
	call := callTo(testXID, procNull)
	call[19] = 4
	require.True(t, l.Server.Handler.Serve(t.Context(), &oncrpc.Request{Msg: call, MaxReply: 4096}, &rep))
	assert.Equal(t, joinBytes(encodeWord(2), encodeWord(testVers), encodeWord(5)), rep.Head[20:])
	assert.Panics(t, func() { Listen(nil, testBinding{}, testBinding{}) })
}

type versionFive struct{ testBinding }

func (versionFive) Program() (prog, vers uint32) { return testProg, 5 }
