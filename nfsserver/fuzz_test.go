package nfsserver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// FuzzServe checks that every call gets a reply within its room, that NFS
// results decode, and that their status is one of the standard's.
func FuzzServe(f *testing.F) {
	_, _, handles := scene(f)
	for _, p := range procCases {
		args := p.args(handles[p.kind])
		f.Add(false, p.proc, args.AppendTo(nil), itemOf(args), true, uint16(4096))
		f.Add(false, p.proc, xdr.AppendFixed(args.AppendTo(nil), itemOf(args)), []byte(nil), false, uint16(300))
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
	f.Fuzz(func(t *testing.T, mount bool, proc uint32, args, item []byte, apart bool, room uint16) {
		g, _, _ := scene(t)
		g.maxReply = int(room)
		prog := nfs3.Program
		if mount {
			prog = mount3.Program
		}
		proc %= nfs3.NumProc + 1
		if !apart {
			item = nil
		}
		head, replyItem := g.serve(append(g.header(prog, 3, proc), args...), item)
		stat, wire := g.accept(head)
		if stat != 0 {
			require.Contains(t, []uint32{3, 4, 5}, stat) // PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR for lack of room
			require.Empty(t, wire)
			return
		}
		if mount || proc == nfs3.ProcNull {
			return
		}
		res := results[proc]
		g.decode(wire, replyItem, res)
		assert.NotContains(t, statusOfResults(res).String(), "(")
	})
}
