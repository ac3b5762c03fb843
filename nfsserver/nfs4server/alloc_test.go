package nfs4server

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// repeatCompound makes a function that executes a COMPOUND again and again.
func (g *testServer) repeatCompound(steps ...step) func() {
	head := nfs4.CompoundArgs{Minor: g.minor, N: uint32(len(steps)) + 1}
	front := head.AppendTo(nil)
	var rest []byte
	for _, s := range steps {
		rest = nfs4.AppendOp(rest, s.op, s.args)
		if w, ok := s.args.(*nfs4.WriteArgs); ok {
			rest = xdr.AppendFixed(rest, w.Data)
		}
	}
	buf := make([]byte, 0, 4096)
	reply := make([]byte, 0, 4096)
	seq := nfs4.SequenceArgs{Session: g.session}
	call := oncrpc.Call{Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer, MaxReply: 1 << 20}
	var rep oncrpc.Reply
	ctx := context.Background()
	return func() {
		g.seq++
		seq.Sequence = g.seq
		buf = append(buf[:0], front...)
		buf = nfs4.AppendOp(buf, nfs4.OpSequence, &seq)
		buf = append(buf, rest...)
		call.Args = xdr.NewReader(buf)
		rep.Head, rep.Tail = reply[:0], nil
		if err := g.s.ServeRPC(ctx, &call, &rep); err != nil {
			panic(err)
		}
		if status := nfs4.Status(uint32(rep.Head[2])<<8 | uint32(rep.Head[3])); status != nfs4.OK {
			panic(status)
		}
		rep.DropItem()
	}
}

// TestAllocs checks that the hot operations do not allocate.
func TestAllocs(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	res, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	id := res.StateID
	id.SeqID = 0
	request := nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrFileID, nfs4.AttrMode,
		nfs4.AttrNumLinks, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrTimeAccess, nfs4.AttrTimeMetadata, nfs4.AttrTimeModify)
	for name, steps := range map[string][]step{
		"SEQUENCE": {},
		"GETATTR":  {putStep(fh), {nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, nil}},
		"ACCESS":   {putStep(fh), {nfs4.OpAccess, &nfs4.AccessArgs{Access: 0x1f}, nil}, {nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, nil}},
		"GETFH":    {putStep(fh), {nfs4.OpGetFH, &void, nil}},
		"READ":     {putStep(fh), {nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Count: 4096}, nil}},
		"WRITE":    {putStep(fh), {nfs4.OpWrite, &nfs4.WriteArgs{StateID: id, Data: []byte("data")}, nil}, {nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, nil}},
		"COMMIT":   {putStep(fh), {nfs4.OpCommit, &nfs4.CommitArgs{}, nil}},
		"LOOKUP":   {putRootStep(), lookupStep("x"), {nfs4.OpGetFH, &void, nil}},
	} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, g.repeatCompound(steps...)), racetest.PoolLosses(4), name)
	}
	name := testing.AllocsPerRun(100, g.repeatCompound(putRootStep(), lookupStep("x"), lookupStep("f")))
	assert.LessOrEqual(t, name, racetest.PoolLosses(4)+1, "the name that LOOKUP passes to the file system")
}

// TestAllocsOfClose checks that CLOSE does not allocate.
func TestAllocsOfClose(t *testing.T) {
	const runs = 100
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	var closes []func()
	for n := range runs + 1 { // AllocsPerRun makes one more
		res, _, st := g.openName(openArgs(fmt.Sprint(n), "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
		require.Equal(t, nfs4.OK, st)
		closes = append(closes, g.repeatCompound(putStep(fh), step{nfs4.OpClose, &nfs4.CloseArgs{StateID: res.StateID}, nil}))
	}
	n := testing.AllocsPerRun(runs, func() {
		closes[0]()
		closes = closes[1:]
	})
	assert.LessOrEqual(t, n, racetest.PoolLosses(4))
	assert.Empty(t, closes)
}

func BenchmarkCompound(b *testing.B) {
	g := newTestServer(b).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	res, _, _ := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	request := nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrFileID, nfs4.AttrMode,
		nfs4.AttrNumLinks, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrTimeAccess, nfs4.AttrTimeMetadata, nfs4.AttrTimeModify)
	for name, steps := range map[string][]step{
		"SEQUENCE": {},
		"GETATTR":  {putStep(fh), {nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, nil}},
		"READ":     {putStep(fh), {nfs4.OpRead, &nfs4.ReadArgs{StateID: res.StateID, Count: 4096}, nil}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			call := g.repeatCompound(steps...)
			for b.Loop() {
				call()
			}
		})
	}
}

// TestAllocsUndelegated checks that frequent operations allocate no more if clients could have
// delegations of other clients' files, but have none.
func TestAllocsUndelegated(t *testing.T) {
	g, _ := newWriteDelegServer(t)
	file := g.makeFileStep("f")
	request := nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrTimeModify)
	for name, steps := range map[string][]step{
		"GETATTR": {file, {nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, nil}},
		"READ":    {file, {nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.BypassStateID, Count: 4096}, nil}},
		"WRITE":   {file, {nfs4.OpWrite, &nfs4.WriteArgs{StateID: nfs4.AnonymousStateID, Data: []byte("data")}, nil}},
	} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, g.repeatCompound(steps...)), racetest.PoolLosses(4), name)
	}
}
