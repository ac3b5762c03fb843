package nfsserver

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestEachEligible checks that among the arguments only WRITE's data and SYMLINK's path may be
// sent apart from the message. A call that violates this is GARBAGE_ARGS, and nothing is done.
// Among the results, READ's data and READLINK's path are sent apart (R8166-3.4.2-1,
// R8166-6.1-1, R8166-6.1-2, R8166-3.4.4.3-1, R8267-4-1, R8267-4-2).
func TestEachEligible(t *testing.T) {
	const garbageArgs = 4
	eachProc(t, nil, func(t *testing.T, g *testServer, fs *memFS, p procCase, fh nfs3.FH) {
		args := p.args(fh)
		head := g.callHeader(nfs3.Program, nfs3.Version, p.proc)
		plain, item := args.AppendTo(nil), dataItem(args)
		wire := xdr.AppendFixed(plain, item)
		eligible := -1
		if item != nil {
			eligible = len(plain)
		}
		clock := fs.clock
		for pos := 4; pos <= len(wire); pos += 4 {
			n := int(binary.BigEndian.Uint32(wire[pos-4:]))
			if n > len(wire)-pos || pos == eligible {
				continue
			}
			req := oncrpc.Request{Peer: g.peer, MaxReply: g.maxReply, ItemPos: len(head) + pos, Item: wire[pos:][:n]}
			req.Msg = append(append(head[:len(head):len(head)], wire[:pos]...), wire[pos+n+xdr.Pad(n):]...)
			var rep oncrpc.Reply
			require.True(t, g.mux.Serve(t.Context(), &req, &rep))
			stat, _ := g.parseAccepted(rep.Head)
			assert.EqualValues(t, garbageArgs, stat, "%d bytes at %d", n, pos)
		}
		assert.Equal(t, clock, fs.clock, "no change")

		var apart []byte
		if eligible >= 0 {
			wire, apart = plain, item
		}
		reply, result := g.serveCall(append(head, wire...), apart)
		stat, _ := g.parseAccepted(reply)
		assert.Zero(t, stat)
		assert.Equal(t, p.proc == nfs3.ProcRead || p.proc == nfs3.ProcReadLink, result != nil)
	})
}
