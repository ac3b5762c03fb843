package nfsserver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// FuzzServe checks that every call gets a reply within its limit, that NFS results decode, and
// that their status is defined in the standard.
func FuzzServe(f *testing.F) {
	_, _, handles := newScene(f)
	for _, p := range procCases {
		args := p.args(handles[p.kind])
		f.Add(false, p.proc, args.AppendTo(nil), dataItem(args), true, uint16(4096))
		f.Add(false, p.proc, xdr.AppendFixed(args.AppendTo(nil), dataItem(args)), []byte(nil), false, uint16(300))
	}
	for _, file := range []string{"create", "rename", "setattr", "readdirplus", "write"} {
		call := replayGolden(wiretest.Hex(f, "testdata/"+file+"-call.hex"), handles)
		f.Add(false, uint32(call[23]), call[64:], []byte("data"), true, uint16(1000))
	}
	f.Add(true, mount3.ProcMnt, xdr.AppendString(nil, "/x/d"), []byte(nil), false, uint16(100))
	f.Add(true, mount3.ProcDump, []byte(nil), []byte(nil), false, uint16(100))
	f.Add(true, mount3.ProcExport, []byte(nil), []byte(nil), false, uint16(100))

	results := make(map[uint32]message)
	for _, p := range procCases {
		results[p.proc] = p.res
	}
	f.Fuzz(func(t *testing.T, mount bool, proc uint32, args, item []byte, apart bool, maxReply uint16) {
		g, _, _ := newScene(t)
		g.maxReply = int(maxReply)
		prog := nfs3.Program
		if mount {
			prog = mount3.Program
		}
		proc %= nfs3.NumProc + 1
		if !apart {
			item = nil
		}
		head, replyItem := g.serveCall(append(g.callHeader(prog, 3, proc), args...), item)
		stat, wire := g.parseAccepted(head)
		if stat != 0 {
			require.Contains(t, []uint32{3, 4, 5}, stat) // PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR for lack of space
			require.Empty(t, wire)
			return
		}
		if mount || proc == nfs3.ProcNull {
			return
		}
		res := results[proc]
		g.decodeResults(wire, replyItem, res)
		assert.NotContains(t, resultStatus(res).String(), "(")
	})
}
