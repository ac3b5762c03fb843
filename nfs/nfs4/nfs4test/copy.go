package nfs4test

import (
	"math"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

func copyOp(a nfs4.CopyArgs, res *nfs4.CopyRes) op { return op{nfs4.OpCopy, &a, res} }

func cloneOp(a nfs4.CloneArgs) op { return op{nfs4.OpClone, &a, statusRes()} }

// withSavedFH returns operations that make src the saved and dst the current
// filehandle, and then o.
func withSavedFH(src, dst nfs4.FH, o op) []op { return []op{putFH(src), saveFH(), putFH(dst), o} }

// copies are scenarios for COPY, CLONE, OFFLOAD_STATUS and OFFLOAD_CANCEL.
var copies = []Scenario{
	{Name: "COPY", By: "RFC 7862, 15.2.3", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.2-7, R7862-15.2-9, R7862-15.2-10, R7862-15.2-11
		src := t.newFile("src", "0123456789")
		for _, tt := range []struct {
			src, dst, count uint64
			had, want       string
		}{
			{0, 0, 10, "", "0123456789"},
			{2, 0, 3, "abcdef", "234def"},
			{5, 0, 0, "", "56789"},
			{8, 3, 2, "", "\x00\x00\x0089"},
			{0, 0, 0, "abcdefghijkl", "0123456789kl"},
		} {
			dst := t.openAs(t.ownSession(), t.uniqueName(), "owner", nfs4.ShareBoth, 0)
			t.expectStatus(nfs4.OK, putFH(dst.fh), writeOp(dst.id, 0, nfs4.Unstable, tt.had, new(nfs4.WriteRes)))
			var res nfs4.CopyRes
			t.expectStatus(nfs4.OK, withSavedFH(src.fh, dst.fh, copyOp(nfs4.CopyArgs{
				SrcStateID: src.id, DstStateID: dst.id, SrcOffset: tt.src, DstOffset: tt.dst, Count: tt.count, Consecutive: true, Synchronous: true,
			}, &res))...)
			assert.False(t, res.Response.HasCallback)
			assert.True(t, res.Consecutive && res.Synchronous)
			assert.Equal(t, tt.want, t.readFile(dst))
			if tt.count > 0 {
				assert.Equal(t, tt.count, res.Response.Count)
			}
		}
	}},
	{Name: "COPY, and then COMMIT", By: "RFC 7862, 15.2.3: as after WRITE", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.2-14
		src, dst := t.newFile("src", "0123456789"), t.newFile("dst", "")
		var res nfs4.CopyRes
		var done nfs4.CommitRes
		t.expectStatus(nfs4.OK, withSavedFH(src.fh, dst.fh, copyOp(nfs4.CopyArgs{SrcStateID: src.id, DstStateID: dst.id, Count: 10, Consecutive: true, Synchronous: true}, &res))...)
		t.expectStatus(nfs4.OK, putFH(dst.fh), commitOp(0, 0, &done))
		if res.Response.Committed == nfs4.Unstable {
			assert.Equal(t, done.Verf, res.Response.Verf)
		}
	}},
	{Name: "COPY of much", By: "RFC 7862, 15.2.3: fewer bytes may be copied", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.2-12, R7862-15.2-13
		src, dst := t.newSparseFile("src"), t.newFile("dst", "")
		const size = 20 << 20
		t.expectStatus(nfs4.OK, putFH(src.fh), setAttr(src.id, sizeAttrs(size)))
		calls := 0
		for off := uint64(0); off < size; calls++ {
			var res nfs4.CopyRes
			t.expectStatus(nfs4.OK, withSavedFH(src.fh, dst.fh, copyOp(nfs4.CopyArgs{
				SrcStateID: src.id, DstStateID: dst.id, SrcOffset: off, DstOffset: off, Count: size - off, Consecutive: true, Synchronous: true,
			}, &res))...)
			require.Positive(t, res.Response.Count)
			off += res.Response.Count
		}
		assert.Greater(t, calls, 1, "one call does not hold a slot for long")
		assert.EqualValues(t, size, t.getAttrs(dst.fh, nfs4.AttrSize).Size)
		for _, off := range []uint64{0, block / 2, block, 2 * block, size - 10} {
			var a, b nfs4.ReadRes
			t.expectStatus(nfs4.OK, putFH(src.fh), readOp(src.id, off, block/4, &a))
			t.expectStatus(nfs4.OK, putFH(dst.fh), readOp(dst.id, off, block/4, &b))
			assert.Equal(t, a.Data, b.Data)
		}
	}},
	{Name: "COPY beyond the source's end", By: "RFC 7862, 15.2.3: NFS4ERR_INVAL", Linux: "it copies up to the end", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.2-8
		src, dst := t.newFile("src", "0123456789"), t.newFile("dst", "")
		args := nfs4.CopyArgs{SrcStateID: src.id, DstStateID: dst.id, Consecutive: true, Synchronous: true}
		for _, r := range [][2]uint64{{10, 1}, {9, 2}, {11, 0}, {0, 11}, {1, math.MaxUint64}, {math.MaxUint64, 1}} {
			args.SrcOffset, args.Count = r[0], r[1]
			t.expectStatus(nfs4.ErrInval, withSavedFH(src.fh, dst.fh, copyOp(args, new(nfs4.CopyRes)))...)
		}
		args.SrcOffset, args.Count = 10, 0
		var res nfs4.CopyRes
		t.expectStatus(nfs4.OK, withSavedFH(src.fh, dst.fh, copyOp(args, &res))...)
		assert.Zero(t, res.Response.Count)
		assert.Empty(t, t.readFile(dst))
	}},
	{Name: "COPY within one file", By: "RFC 7862, 15.2.3: NFS4ERR_INVAL", Linux: "it copies", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.2-4
		f := t.newFile("f", "0123456789")
		t.expectStatus(nfs4.OK, putFH(f.fh), saveFH(), putFH(t.ownDir()), linkOp("other name"))
		args := nfs4.CopyArgs{SrcStateID: f.id, DstStateID: f.id, DstOffset: 10, Count: 5, Consecutive: true, Synchronous: true}
		t.expectStatus(nfs4.ErrInval, withSavedFH(f.fh, f.fh, copyOp(args, new(nfs4.CopyRes)))...)
		t.expectStatus(nfs4.ErrInval, putFH(f.fh), saveFH(), putFH(t.ownDir()), lookupOp("other name"), copyOp(args, new(nfs4.CopyRes)))
	}},
	{Name: "COPY and CLONE of what is no file", By: "RFC 7862, 15.2.3 and 15.13.3: NFS4ERR_WRONG_TYPE", Linux: "NFS4ERR_INVAL or another for some", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.2-3, R7862-15.13-1
		f := t.newFile("f", "0123456789")
		c := copyOp(nfs4.CopyArgs{Count: 5, Consecutive: true, Synchronous: true}, new(nfs4.CopyRes))
		t.eachNonRegular(func(fh nfs4.FH) {
			for _, o := range []op{c, cloneOp(nfs4.CloneArgs{})} {
				t.expectStatus(nfs4.ErrWrongType, withSavedFH(fh, f.fh, o)...)
				t.expectStatus(nfs4.ErrWrongType, withSavedFH(f.fh, fh, o)...)
			}
		})
	}},
	{Name: "COPY and CLONE with each kind of stateid", By: "RFC 7862, 15.2.3 and 15.13.3", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.2-6, R7862-15.13-2
		t.newFile("src", "0123456789")
		t.newFile("dst", "")
		s := t.newClient().newSession().completeReclaim()
		src, dst := t.openAs(s, "src", "o", nfs4.ShareRead, 0), t.openAs(s, "dst", "o", nfs4.ShareWrite, 0)
		both := func(st nfs4.Status, src, dst *openedFile, srcID, dstID nfs4.StateID) {
			s.expectStatus(st, withSavedFH(src.fh, dst.fh, copyOp(nfs4.CopyArgs{SrcStateID: srcID, DstStateID: dstID, Count: 5, Consecutive: true, Synchronous: true}, new(nfs4.CopyRes)))...)
			if st != nfs4.OK { // otherwise the file system decides
				s.expectStatus(st, withSavedFH(src.fh, dst.fh, cloneOp(nfs4.CloneArgs{SrcStateID: srcID, DstStateID: dstID}))...)
			}
		}
		both(nfs4.OK, src, dst, src.id, dst.id)
		both(nfs4.OK, src, dst, nfs4.AnonymousStateID, nfs4.AnonymousStateID)
		both(nfs4.OK, src, dst, nfs4.BypassStateID, dst.id)
		both(nfs4.ErrBadStateID, src, dst, dst.id, src.id)
		both(nfs4.ErrOpenMode, dst, src, dst.id, src.id)
		s.expectStatus(nfs4.OK, putFH(src.fh), closeFile(src.id))
		both(nfs4.ErrBadStateID, src, dst, src.id, dst.id)
	}},
	{Name: "COPY that others deny", By: "RFC 7862, 15.2.3; RFC 8881, 9.7: NFS4ERR_LOCKED", Since: nfs4.Minor2, run: func(t *T) { // R7862-15.2-16
		src, dst := t.newFile("src", "0123456789"), t.newFile("dst", "")
		s := t.newClient().newSession().completeReclaim()
		args := nfs4.CopyArgs{Count: 5, Consecutive: true, Synchronous: true}
		t.expectStatus(nfs4.OK, putFH(src.fh), closeFile(src.id))
		denier := t.openAs(t.ownSession(), "src", "d", nfs4.ShareRead, nfs4.ShareRead)
		s.expectStatus(nfs4.ErrLocked, withSavedFH(src.fh, dst.fh, copyOp(args, new(nfs4.CopyRes)))...)
		t.expectStatus(nfs4.OK, putFH(src.fh), closeFile(denier.id))
		s.expectStatus(nfs4.OK, withSavedFH(src.fh, dst.fh, copyOp(args, new(nfs4.CopyRes)))...)
		t.expectStatus(nfs4.OK, putFH(dst.fh), closeFile(dst.id))
		t.openAs(t.ownSession(), "dst", "d", nfs4.ShareRead, nfs4.ShareWrite)
		s.expectStatus(nfs4.ErrLocked, withSavedFH(src.fh, dst.fh, copyOp(args, new(nfs4.CopyRes)))...)
	}},
	{Name: "COPY without a saved filehandle", By: "RFC 7862, 11.2: NFS4ERR_NOFILEHANDLE", Since: nfs4.Minor2, run: func(t *T) {
		f := t.newFile("f", "0123456789")
		t.expectStatus(nfs4.ErrNoFileHandle, putFH(f.fh), copyOp(nfs4.CopyArgs{DstStateID: f.id, Synchronous: true}, new(nfs4.CopyRes)))
	}},
	{Name: "COPY from another server", By: "RFC 7862, 15.2.3 and 11.2", Linux: "it refuses otherwise", Since: nfs4.Minor2, run: func(t *T) { // R7862-4.9-1, R7862-4.9.1.2-1, R7862-4.6.2-1
		src, dst := t.newFile("src", "0123456789"), t.newFile("dst", "")
		args := nfs4.CopyArgs{SrcStateID: src.id, DstStateID: dst.id, Count: 5, Synchronous: true, Sources: []nfs4.NetLoc{{Type: nfs4.NetLocName, Where: []byte("server")}}}
		t.expectStatus(nfs4.ErrPartnerNotSupp, withSavedFH(src.fh, dst.fh, copyOp(args, new(nfs4.CopyRes)))...)
	}},
	{Name: "CLONE", By: "RFC 7862, 15.13.3, and 4.1.2: clone_blksize shows that it works", Since: nfs4.Minor2, run: func(t *T) { // R7862-4.1.2-4, R7862-15.13-3, R7862-15.13-4, R7862-15.13-5
		src, dst := t.newFile("src", strings.Repeat("x", block/2)), t.newFile("dst", "")
		a := t.getAttrs(src.fh, nfs4.AttrSupportedAttrs, nfs4.AttrCloneBlkSize)
		args := nfs4.CloneArgs{SrcStateID: src.id, DstStateID: dst.id}
		if !a.SupportedAttrs.Has(nfs4.AttrCloneBlkSize) {
			t.expectOneOf([]nfs4.Status{nfs4.ErrNotSupp}, withSavedFH(src.fh, dst.fh, cloneOp(args))...)
			return
		}
		n := uint64(a.CloneBlkSize)
		t.expectStatus(nfs4.OK, putFH(src.fh), writeOp(src.id, block/2, nfs4.FileSync, "end", new(nfs4.WriteRes)))
		t.expectStatus(nfs4.OK, withSavedFH(src.fh, dst.fh, cloneOp(args))...)
		assert.EqualValues(t, block/2+3, t.getAttrs(dst.fh, nfs4.AttrSize).Size)
		assert.Equal(t, t.readFile(src), t.readFile(dst))
		for _, tt := range []nfs4.CloneArgs{{SrcOffset: 1}, {DstOffset: 1}, {Count: 1}, {SrcOffset: block/2 + 4}, {Count: block}, {SrcOffset: n, Count: math.MaxUint64}} {
			tt.SrcStateID, tt.DstStateID = src.id, dst.id
			t.expectStatus(nfs4.ErrInval, withSavedFH(src.fh, dst.fh, cloneOp(tt))...)
		}
		args = nfs4.CloneArgs{SrcStateID: src.id, DstStateID: src.id, Count: 2 * n, DstOffset: n}
		t.expectStatus(nfs4.ErrInval, withSavedFH(src.fh, src.fh, cloneOp(args))...)
		args.DstOffset = block
		t.expectStatus(nfs4.OK, withSavedFH(src.fh, src.fh, cloneOp(args))...)
		var res nfs4.ReadRes
		t.expectStatus(nfs4.OK, putFH(src.fh), readOp(src.id, block, 5, &res))
		assert.Equal(t, "xxxxx", string(res.Data))
	}},
	{Name: "COPY that goes on after the answer", By: "RFC 7862, 15.2.3, 16.1.3: CB_OFFLOAD tells of its end", Since: nfs4.Minor2, run: func(t *T) {
		const size = 20 << 20
		s, back := t.newBackchannelSession()
		const access = nfs4.ShareBoth | nfs4.WantNoDeleg
		src, dst := t.openAs(s, "src", "owner", access, 0), t.openAs(s, "dst", "owner", access, 0)
		s.expectStatus(nfs4.OK, putFH(src.fh), setAttr(src.id, sizeAttrs(size)))
		var res nfs4.CopyRes
		s.expectStatus(nfs4.OK, withSavedFH(src.fh, dst.fh, copyOp(nfs4.CopyArgs{SrcStateID: src.id, DstStateID: dst.id, Count: size, Consecutive: true}, &res))...)
		if !res.Response.HasCallback { // the server may have finished
			assert.True(t, res.Synchronous)
			return
		}
		select {
		case a := <-back.offloads:
			assert.Equal(t, dst.fh, a.Object)
			assert.Equal(t, res.Response.Callback, a.StateID)
			assert.NotZero(t, a.StateID.SeqID)
			assert.Equal(t, nfs4.OK, a.Status)
			assert.False(t, a.Response.HasCallback)
			assert.EqualValues(t, size, a.Response.Count)
		case <-time.After(callLimit):
			t.Errorf("no CB_OFFLOAD within %v", callLimit)
		}
		assert.EqualValues(t, size, t.getAttrs(dst.fh, nfs4.AttrSize).Size)
	}},
	{Name: "OFFLOAD_STATUS and OFFLOAD_CANCEL of no copy", By: "RFC 7862, 11.2: NFS4ERR_BAD_STATEID", Since: nfs4.Minor2, run: func(t *T) { // R7862-4.8-1
		f := t.newFile("f", "0123456789")
		for _, id := range []nfs4.StateID{{}, {SeqID: 1, Other: [12]byte{1, 2, 3}}} {
			t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), op{nfs4.OpOffloadCancel, &nfs4.StateIDArgs{StateID: id}, statusRes()})
			t.expectStatus(nfs4.ErrBadStateID, putFH(f.fh), op{nfs4.OpOffloadStatus, &nfs4.StateIDArgs{StateID: id}, new(nfs4.OffloadStatusRes)})
		}
	}},
}
