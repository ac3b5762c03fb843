package nfs4server

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// serveCompound serves a COMPOUND with SEQUENCE before the steps, for a reply with the given
// item limits. The caller releases rep's items.
func (g *testServer) serveCompound(rep *oncrpc.Reply, maxReply int, itemLimits []int, steps ...step) {
	g.t.Helper()
	g.seq++
	seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq}, new(nfs4.SequenceRes)}
	call := oncrpc.Call{
		Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer,
		Args: xdr.NewReader(g.encodeCompound(append([]step{seq}, steps...)...)), MaxReply: maxReply, ItemLimits: itemLimits,
	}
	require.NoError(g.t, g.s.ServeRPC(context.Background(), &call, rep))
}

// replyItems returns a reply's data items.
func replyItems(rep *oncrpc.Reply) (all [][]byte) {
	if rep.Item == nil {
		return nil
	}
	all = append(all, rep.Item.B)
	for _, p := range rep.More {
		all = append(all, p.Item.B)
	}
	return all
}

func readStep(off uint64, n uint32) step {
	return step{nfs4.OpRead, &nfs4.ReadArgs{Offset: off, Count: n}, new(nfs4.ReadRes)}
}

// TestItems checks the data items in COMPOUNDs with several READs and READLINKs: one for each,
// in order, as long as the space for it (R8267-6.4.1-1, R8267-6.4.1-2, R8267-6.4.1-3,
// R8267-6.4.1-4, R8267-6.4.1-6). Items without their own space share the rest of the reply.
func TestItems(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "0123456789")
	link := nfs4.CreateArgs{Type: nfs4.TypeLnk, LinkData: []byte("target"), Name: []byte("link")}
	link.Attrs.Mask, link.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o777
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &link, new(nfs4.CreateRes)})
	require.Equal(t, nfs4.OK, st)
	toLink := []step{putRootStep(), lookupStep("x"), lookupStep("link"), {nfs4.OpReadLink, &void, new(nfs4.ReadLinkRes)}}
	attr := step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, new(nfs4.GetAttrRes)}
	const rest = 4000
	for name, tt := range map[string]struct {
		itemLimits []int
		steps      []step
		want       []string
		st         nfs4.Status
	}{
		"two chunks":             {[]int{100, 100}, []step{putStep(fh), readStep(0, 4), attr, readStep(4, 5), attr}, []string{"0123", "45678"}, nfs4.OK},
		"short chunks":           {[]int{3, 1}, []step{putStep(fh), readStep(0, 10), readStep(3, 10)}, []string{"012", "3"}, nfs4.OK},
		"first inline":           {[]int{0, 100}, []step{putStep(fh), readStep(0, 4), readStep(4, 5)}, []string{"0123", "45678"}, nfs4.OK},
		"more READs than chunks": {[]int{100}, []step{putStep(fh), readStep(0, 4), readStep(4, 5), readStep(9, 9)}, []string{"0123", "45678", "9"}, nfs4.OK},
		"more chunks than READs": {[]int{100, 100, 100}, []step{putStep(fh), readStep(0, 4)}, []string{"0123"}, nfs4.OK},
		"no data":                {[]int{100, 100}, []step{putStep(fh), readStep(10, 4), readStep(0, 2)}, []string{"", "01"}, nfs4.OK},
		"READ and READLINK":      {[]int{100, 100}, append([]step{putStep(fh), readStep(0, 4)}, toLink...), []string{"0123", "target"}, nfs4.OK},
		"READLINK and READ":      {[]int{100, 100}, append(toLink, putStep(fh), readStep(0, 4)), []string{"target", "0123"}, nfs4.OK},
		"READLINK too long":      {[]int{5}, toLink, nil, nfs4.ErrRepTooBig},
		"second fails":           {[]int{100, 100}, []step{putStep(fh), readStep(0, 4), putRootStep(), readStep(0, 4)}, []string{"0123"}, nfs4.ErrIsDir},
		"TCP":                    {nil, []step{putStep(fh), readStep(0, 4), attr, readStep(4, 5), attr}, []string{"0123", "45678"}, nfs4.OK},
	} {
		t.Run(name, func(t *testing.T) {
			g.t = t
			out := buf.Default.Out()
			var rep oncrpc.Reply
			first := 0
			if len(tt.itemLimits) > 0 {
				first = tt.itemLimits[0]
			}
			g.serveCompound(&rep, rest+first, tt.itemLimits, tt.steps...)
			var got []string
			for _, item := range replyItems(&rep) {
				got = append(got, string(item))
			}
			assert.Equal(t, tt.want, got)
			whole := bytes.Clone(rep.Head)
			for _, part := range rep.AppendBody(nil) {
				whole = append(whole, part...)
			}
			assert.Equal(t, len(whole), rep.Len())
			g.checkResults(whole, tt.st, tt.steps)
			rep.DropItem()
			assert.Equal(t, out, buf.Default.Out(), "buffers")
		})
	}
}

// checkResults reads the whole results of SEQUENCE and the steps.
func (g *testServer) checkResults(whole []byte, want nfs4.Status, steps []step) {
	g.t.Helper()
	r := xdr.NewReader(whole)
	var res nfs4.CompoundRes
	res.Decode(&r)
	assert.Equal(g.t, want, res.Status)
	require.EqualValues(g.t, nfs4.OpSequence, r.Uint32())
	new(nfs4.SequenceRes).Decode(&r)
	for i := range res.N - 1 {
		require.EqualValues(g.t, steps[i].op, r.Uint32())
		if i == res.N-2 && want != nfs4.OK {
			assert.EqualValues(g.t, want, r.Uint32())
			break
		}
		steps[i].res.Decode(&r)
	}
	assert.NoError(g.t, r.Done())
}

// TestItemsRest checks that a long item in its own space does not affect the rest of the reply,
// and that an inline item takes no more than that.
func TestItemsRest(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", strings.Repeat("data", 25_000))
	var rep oncrpc.Reply
	g.serveCompound(&rep, 1000+100_000, []int{100_000}, putStep(fh), readStep(0, 100_000), readStep(0, 100_000))
	got := replyItems(&rep)
	require.Len(t, got, 2)
	assert.Equal(t, 100_000, len(got[0]))
	rest := rep.Len() - 100_000
	assert.LessOrEqual(t, rest, 1000)
	assert.Greater(t, rest, 1000-8)
	rep.DropItem()

	rep = oncrpc.Reply{}
	g.serveCompound(&rep, 96+100_000, []int{100_000}, putStep(fh), readStep(0, 10), readStep(0, 100))
	assert.Equal(t, nfs4.ErrRepTooBig, nfs4.Status(rep.Head[3])|nfs4.Status(rep.Head[2])<<8, "no room for the second READ's head")
	assert.Equal(t, 1, len(replyItems(&rep)))
	rep.DropItem()
}

// TestRoomForFailures checks that no reply is longer than permitted, not even because of an
// operation's results for which no space is left (RFC 8881, Section 2.10.6.4).
func TestRoomForFailures(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", strings.Repeat("data", 100))
	attr := func() step {
		return step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrType)}, new(nfs4.GetAttrRes)}
	}
	set := step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{}, new(nfs4.SetAttrRes)}
	list := step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 4000, MaxCount: 4000}, new(dirListing)}
	test := step{nfs4.OpTestStateID, make(testStateIDs, 20), new(nfs4.TestStateIDRes)}
	for name, steps := range map[string][]step{
		"READ": {putStep(fh), readStep(0, 300), readStep(0, 300), set}, "GETATTR": {putStep(fh), attr(), attr(), set},
		"READDIR": {putRootStep(), lookupStep("x"), list, list, set}, "TEST_STATEID": {putStep(fh), test, test, set},
	} {
		short := 0
		for most := 100; most < 1000; most++ {
			var rep oncrpc.Reply
			g.serveCompound(&rep, most, nil, steps...)
			if !assert.LessOrEqual(t, rep.Len(), most, name) {
				break
			}
			if nfs4.Status(binary.BigEndian.Uint32(rep.Head)) == nfs4.ErrRepTooBig {
				short++
			}
			rep.DropItem()
		}
		assert.Greater(t, short, 10, name)
	}
}

// TestItemsMemory checks that a second READ is deferred if there is no memory for
// its data, while the first one has its own.
func TestItemsMemory(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "0123456789")
	rep := oncrpc.Reply{LendMore: func(int) *buf.Buf { return nil }}
	steps := []step{putStep(fh), readStep(0, 4), readStep(0, 4)}
	g.serveCompound(&rep, 4000, nil, steps...)
	whole := bytes.Clone(rep.Head)
	for _, part := range rep.AppendBody(nil) {
		whole = append(whole, part...)
	}
	g.checkResults(whole, nfs4.ErrDelay, steps)
	assert.Equal(t, 1, len(replyItems(&rep)))
	rep.DropItem()
}

// TestItemsShort checks that READs which find fewer data than they want do not
// keep memory for more: otherwise one COMPOUND could take it many times over.
func TestItemsShort(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "0123456789")
	const maxReply = 1 << 20
	steps := []step{putStep(fh)}
	for range 14 {
		steps = append(steps, readStep(5, maxReply))
	}
	out := buf.Default.Out()
	var rep oncrpc.Reply
	g.serveCompound(&rep, maxReply, nil, steps...)
	memory := 0
	for _, item := range replyItems(&rep) {
		assert.Equal(t, "56789", string(item))
		memory += cap(item)
	}
	assert.Less(t, memory, 2*maxReply)
	assert.Len(t, replyItems(&rep), 14)
	rep.DropItem()
	assert.Equal(t, out, buf.Default.Out(), "buffers")
}

// TestListBehindItem checks that READDIR's list after a READ is short: its memory is not
// counted.
func TestListBehindItem(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "0123456789")
	for i := range 100 {
		g.makeFile(fmt.Sprintf("%0200d", i), "")
	}
	list := func() step {
		return step{nfs4.OpReadDir, &nfs4.ReadDirArgs{DirCount: 1 << 20, MaxCount: 1 << 20}, new(dirListing)}
	}
	whole, short := list(), list()
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), whole, putStep(fh), readStep(0, 10), putRootStep(), lookupStep("x"), short)
	require.Equal(t, nfs4.OK, st)
	assert.Len(t, whole.res.(*dirListing).names, 101)
	l := short.res.(*dirListing)
	assert.Less(t, len(l.names), 50)
	assert.NotEmpty(t, l.names)
	assert.False(t, l.eof)
}

// TestTestStateIDReserves checks that the memory for a long status list is counted, and that
// there is none after a data item.
func TestTestStateIDReserves(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "0123456789")
	test := func(n int) step {
		ids := xdr.AppendUint32(nil, uint32(n))
		return step{nfs4.OpTestStateID, cutArgs(append(ids, make([]byte, 16*n)...)), nil}
	}
	held := 0
	rep := oncrpc.Reply{Hold: func(n int) { held += n }}
	g.serveCompound(&rep, 1<<20, nil, test(100), test(10_000))
	st, n := statusOfReply(t, rep.Head)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, 3, n)
	assert.Equal(t, 40_000, held)

	rep = oncrpc.Reply{}
	g.serveCompound(&rep, 1<<20, nil, putStep(fh), readStep(0, 10), test(100), test(10_000))
	st, n = statusOfReply(t, rep.Head)
	assert.Equal(t, nfs4.ErrRepTooBig, st)
	assert.Equal(t, 5, n)
	rep.DropItem()
}

// TestItemsKept checks that a retry of a COMPOUND with several items gets the reply that its
// slot has cached.
func TestItemsKept(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "0123456789")
	g.seq++
	steps := []step{
		{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq, CacheThis: true}, new(nfs4.SequenceRes)},
		putStep(fh), readStep(0, 5), readStep(5, 3), readStep(8, 9),
	}
	first := g.sendCompound(steps...)
	assert.Contains(t, string(first), "01234\x00\x00\x00")
	assert.Equal(t, first, g.sendCompound(steps...))
}
