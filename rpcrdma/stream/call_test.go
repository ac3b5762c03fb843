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

// TestCalls checks that the record of a call of any form holds the whole
// message (R8166-3.4.5-1, R8267-6.4.2-2).
func TestCalls(t *testing.T) {
	item := repeat(4001)
	msg := callTo(testXID, procItem, word(9), opaque(item), word(7))
	short := callTo(testXID, procItem, word(9), opaque(item[:5]), word(7))
	empty := callTo(testXID, procItem, word(9), opaque(nil), word(7))
	const at = 48                // start of the item
	behind := at + len(item) + 3 // start of its padding
	pages := func(n int) (lengths []int) {
		for ; n > 16; n-- {
			lengths = append(lengths, 1)
		}
		return lengths
	}(31) // 15 segments of one byte
	for _, tt := range []struct {
		name string
		send func(q *requester)
		want []byte
	}{
		{"inline", func(q *requester) { q.call(msg0(), short) }, short},
		{"a chunk", func(q *requester) {
			q.call(msg0(q.reads(at, item)...), cut(msg, at, behind))
		}, msg},
		{"a chunk of 16 segments", func(q *requester) {
			q.call(msg0(q.reads(at, item, append(pages, len(item)-15)...)...), cut(msg, at, behind))
		}, msg},
		{"a chunk with its padding", func(q *requester) {
			q.call(msg0(q.reads(at, msg[at:behind])...), cut(msg, at, behind))
		}, msg},
		{"an empty chunk", func(q *requester) {
			q.call(msg0(q.reads(at, nil, 0)...), empty)
		}, empty},
		{"position zero", func(q *requester) {
			q.call(noMsg(chunks.Lists{Reads: q.reads(0, msg)}), nil)
		}, msg},
		{"position zero and a chunk, of 16 segments each", func(q *requester) {
			rest := cut(msg, at, behind)
			reads := q.reads(0, rest, append(pages, len(rest)-15)...)
			reads = append(reads, q.reads(at, item, append(pages, len(item)-15)...)...)
			q.call(noMsg(chunks.Lists{Reads: reads}), nil)
		}, msg},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stream(t, nil, func(t *testing.T, r *rig) {
				q := r.dialLinux()
				var c net.Conn
				for _, by := range []func(io.Reader) io.Reader{whole, iotest.OneByteReader} {
					if tt.send(q); c == nil {
						c = r.accept()
					}
					assert.Equal(t, tt.want, readRecord(t, by(c)))
					write(t, c, record(success(testXID)))
					assert.Equal(t, wire.Msg, q.answer().Proc)
				}
			})
		})
	}
}

func whole(r io.Reader) io.Reader { return r }

// msg0 is msg with nothing but a Read list.
func msg0(reads ...chunks.ReadSegment) wire.Header { return msg(chunks.Lists{Reads: reads}) }

// cut returns b without the bytes from i to j.
func cut(b []byte, i, j int) []byte { return append(append([]byte{}, b[:i]...), b[j:]...) }

// TestReducedArguments checks that arguments that must not be moved, or
// whose length differs from the message's, never reach the server behind
// (R8166-3.4.2-1, R8166-6.1-2, R8166-4.5.2-2, R8267-4-2).
func TestReducedArguments(t *testing.T) {
	item := repeat(40)
	call := func(proc uint32) []byte { return callTo(testXID, proc, word(9), word(len(item)), word(7)) }
	for name, send := range map[string]func(q *requester){
		"another procedure": func(q *requester) { q.call(msg0(q.reads(48, item)...), call(procPlain)) },
		"no arguments":      func(q *requester) { q.call(msg0(q.reads(40, item)...), callTo(testXID, procNull)) },
		"another item":      func(q *requester) { q.call(msg0(q.reads(52, item)...), call(procItem)) },
		"the header":        func(q *requester) { q.call(msg0(q.reads(40, item)...), call(procItem)) },
		"shorter":           func(q *requester) { q.call(msg0(q.reads(48, item[:36])...), call(procItem)) },
		"longer":            func(q *requester) { q.call(msg0(q.reads(48, repeat(44))...), call(procItem)) },
		"one more": func(q *requester) {
			q.call(msg0(append(q.reads(48, item), q.reads(92, item)...)...), call(procItem))
		},
	} {
		t.Run(name, func(t *testing.T) {
			stream(t, nil, func(t *testing.T, r *rig) {
				q := r.dialLinux()
				send(q)
				a := q.answer()
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
		"version above":   {change(16, testVers+1), join(word(0), word(0), word(0), word(2), word(testVers), word(testVers))},
		"version below":   {change(16, testVers-1), join(word(0), word(0), word(0), word(2), word(testVers), word(testVers))},
		"program":         {change(12, testProg+1), join(word(0), word(0), word(0), word(1))},
		"version of RPC":  {change(8, 3), join(word(1), word(0), word(2), word(2))},
		"long credential": {change(28, 404), join(word(1), word(1), word(1))},
		"cut":             {callTo(testXID, procNull)[:30], join(word(0), word(0), word(0), word(4))},
		"reply":           {change(4, 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			stream(t, nil, func(t *testing.T, r *rig) {
				q := r.dialLinux()
				q.call(msg0(), tt.call)
				if tt.want == nil {
					assert.Empty(t, q.answers())
				} else {
					assert.Equal(t, tt.want, q.answer().body[8:])
				}
				assert.Empty(t, r.conns, "a connection is made with the first call for it")

				q.call(msg0(), callTo(testXID, procNull))
				c := r.accept()
				assert.Len(t, readRecord(t, c), 40)
				write(t, c, record(success(testXID)))
				assert.Equal(t, wire.Msg, q.answer().Proc)
			})
		})
	}
}

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// TestVersions checks that all versions of a program are reported.
func TestVersions(t *testing.T) {
	l := Listen(nil, testBinding{}, versionFive{})
	l.others.Log = testLog(t)
	var rep oncrpc.Reply
	call := callTo(testXID, procNull)
	call[19] = 4
	require.True(t, l.Server.Handler.Serve(t.Context(), &oncrpc.Request{Msg: call, MaxReply: 4096}, &rep))
	assert.Equal(t, join(word(2), word(testVers), word(5)), rep.Head[20:])
	assert.Panics(t, func() { Listen(nil, testBinding{}, testBinding{}) })
}

type versionFive struct{ testBinding }

func (versionFive) Program() (prog, vers uint32) { return testProg, 5 }
