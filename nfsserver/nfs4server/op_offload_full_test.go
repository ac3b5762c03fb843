package nfs4server

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestOffloadFull checks that a copy that continues after its reply, and fills the file system,
// reports how far it came (R7862-15.2-15): that much is there, and nothing else remains.
func TestOffloadFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, piece = 40 << 20, 1 << 19
		g, back := newDelegServerFor(t, mem.New(mem.Options{Size: 64 << 20}), true)
		src, dst := g.makeFileStep("src"), g.makeFileStep("dst")
		fh := func(put step) nfs4.FH { return put.args.(*nfs4.HandleArgs).Object }
		content := func(at int) []byte { return bytes.Repeat([]byte{byte(at/piece + 1)}, piece) }
		for at := 0; at < size; at += piece {
			st, _ := g.sendSteps(src, step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: nfs4.AnonymousStateID, Offset: uint64(at), Stable: nfs4.FileSync, Data: content(at)}, new(nfs4.WriteRes)})
			require.Equal(t, nfs4.OK, st)
		}
		ended := make(chan nfs4.CBOffloadArgs, 1)
		back.offload = func(a nfs4.CBOffloadArgs) { ended <- a }
		res := g.copyWholeFile(src, dst, false)
		require.True(t, res.Response.HasCallback)
		a := <-ended
		assert.Equal(t, res.Response.Callback, a.StateID)
		assert.Equal(t, nfs4.ErrNoSpc, a.Status)
		assert.Greater(t, a.Copied, uint64(16<<20))
		assert.Less(t, a.Copied, uint64(24<<20)+1)
		assert.Equal(t, a.Copied, g.getAttrs(fh(dst), nfs4.BitmapOf(nfs4.AttrSize)).Size)
		for at := 0; at+piece <= int(a.Copied); at += piece {
			var read nfs4.ReadRes
			st, _ := g.sendSteps(dst, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.AnonymousStateID, Offset: uint64(at), Count: piece}, &read})
			require.Equal(t, nfs4.OK, st)
			require.True(t, bytes.Equal(content(at), read.Data), "at %d", at)
		}
		synctest.Wait()
		_, st := g.offloadStatus(dst, a.StateID)
		assert.Equal(t, nfs4.ErrBadStateID, st)
		assert.Empty(t, g.s.offloads.byID)
		assert.Equal(t, nfs4.OK, g.setAttrs(fh(dst), nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}))
		require.Equal(t, nfs4.OK, g.setAttrs(fh(src), nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 20 << 20}))
		require.True(t, g.copyWholeFile(src, dst, false).Response.HasCallback)
		a = <-ended
		assert.Equal(t, nfs4.OK, a.Status)
		assert.EqualValues(t, 20<<20, a.Response.Count)
	})
}
