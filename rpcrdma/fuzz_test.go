package rpcrdma

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
)

// moody answers a call according to its message's last byte.
var moody = serviceFunc(func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
	mood := int(req.Msg[len(req.Msg)-1])
	if mood&1 != 0 {
		copy(rep.NewItem(min(1<<(mood>>4), req.MaxReply)), req.Item)
	}
	if mood&2 != 0 {
		rep.Tail = make([]byte, mood)
	}
	if mood&4 != 0 {
		rep.Head = append(rep.Head, make([]byte, max(0, req.MaxReply-len(rep.Head)))...)
	}
	return mood&8 == 0
})

// FuzzResponder sends a server any message and then a sound call. It checks
// that the server answers the first at most once, releases all buffers and
// memory, and still answers the second, unless the message named memory that
// does not exist.
func FuzzResponder(f *testing.F) {
	for _, tt := range golden {
		f.Add(wiretest.Hex(f, tt.file))
	}
	full := newMsg(chunks.Lists{
		Reads:    []chunks.ReadSegment{{Position: 40, Segment: chunks.Segment{Handle: 1, Length: 9}}},
		Reply:    chunks.Chunk{{Handle: 2, Length: 5000}, {Handle: 2, Length: 3000, Offset: 5000}},
		HasReply: true,
	})
	full.Vers = wire.Version
	full.Lists.AddWrite(chunks.Chunk{{Handle: 3, Length: 100}, {Handle: 3, Length: 4096}})
	for mood := range byte(16) {
		f.Add(full.AppendTo(nil))
		f.Add(append(full.AppendTo(nil), rpcCall(testXID, string([]byte{0, 0, 0, mood<<4 | mood}))...))
	}
	for _, wire := range hostileMessages(f) {
		f.Add(wire)
	}
	const inline = 64 << 10
	f.Fuzz(func(t *testing.T, message []byte) {
		if len(message) > inline {
			return // the provider rejects it
		}
		withServer(t, &Server{Handler: moody, Inline: inline}, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			for stag := range rdma.STag(4) {
				q.registerAt(make([]byte, 1<<16), rdma.RemoteRead|rdma.RemoteWrite, stag, 0)
			}
			q.sendRaw(message)
			assert.LessOrEqual(t, len(q.newAnswers()), 1)
			if len(q.closeErrors()) > 0 {
				return
			}
			q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, "\x00\x00\x00\x00"))
			assert.Equal(t, wire.Msg, q.onlyAnswer().Proc)
		})
	})
}
