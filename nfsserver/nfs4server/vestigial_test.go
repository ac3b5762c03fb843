package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestVestigial checks that the server ignores the IDs that minor version 0 needed: an owner's
// client ID (R8881-3.3.10-1) and the operations' sequence IDs (R8881-8.8-2).
//
// R8881-18.2.3-2, R8881-18.16.3-11, R8881-18.18.3-1.
func TestVestigial(t *testing.T) {
	g := newTestServer(t).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	var first nfs4.OpenRes
	for i, id := range []uint64{0, 1, ^uint64(0)} {
		a := openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate)
		a.SeqID, a.Owner.ClientID = uint32(id)*7, id
		res, _, st := g.openName(a)
		require.Equal(t, nfs4.OK, st)
		if i == 0 {
			first = res
		}
		assert.Equal(t, nfs4.StateID{SeqID: uint32(i + 1), Other: first.StateID.Other}, res.StateID, "of one owner")
	}
	var down nfs4.StateIDRes
	id := nfs4.StateID{Other: first.StateID.Other}
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpOpenDowngrade, &nfs4.OpenDowngradeArgs{StateID: id, SeqID: 99, ShareAccess: nfs4.ShareRead}, &down})
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpClose, &nfs4.CloseArgs{StateID: down.StateID, SeqID: 77}, new(nfs4.StateIDRes)})
	assert.Equal(t, nfs4.OK, st)
}

// TestNotBuilt checks that operations which the server does not have are refused
// with any arguments, and that the next call is served (R8881-3.3.14-1,
// R8881-8.8-1).
func TestNotBuilt(t *testing.T) {
	g := newTestServer(t).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	refused := 0
	for op := range operations {
		_, last, ok := nfs4.Op(op).Minors()
		if !ok || operations[op].execute != nil || nfs4.Op(op) == nfs4.OpSequence {
			continue
		}
		refused++
		for _, args := range []cutArgs{nil, make(cutArgs, 200)} {
			st, n := g.sendSteps(putStep(fh), step{nfs4.Op(op), args, newStatusRes()}, getFHStep())
			assert.Equal(t, nfs4.ErrNotSupp, st, "%s, of minor versions up to %d", nfs4.Op(op), last)
			assert.Equal(t, 2, n)
		}
		st, _ := g.sendSteps(putStep(fh), getFHStep())
		assert.Equal(t, nfs4.OK, st)
	}
	assert.NotZero(t, refused)
	for _, op := range []nfs4.Op{
		nfs4.OpSetClientID, nfs4.OpSetClientIDConfirm, nfs4.OpOpenConfirm, nfs4.OpReleaseLockOwner, nfs4.OpRenew,
	} {
		st, _ := g.sendSteps(step{op, make(cutArgs, 64), newStatusRes()})
		assert.Equal(t, nfs4.ErrNotSupp, st, "R8881-8.8-1: %s", op)
	}
}

// TestImplementation checks that nothing depends on a client's self-description
// (R8881-3.3.21-1).
//
// R8881-18.35.3-12.
func TestImplementation(t *testing.T) {
	g := newTestServer(t)
	want, st := g.exchangeID("c", 1, 0)
	require.Equal(t, nfs4.OK, st)
	a := &nfs4.ExchangeIDArgs{Owner: []byte("c"), Verifier: nfs4.Verifier{1}}
	a.Impl = nfs4.ImplID{Set: true, Domain: []byte("example.org"), Name: make([]byte, 1000), Date: nfs4.Time{Sec: 5}}
	var got nfs4.ExchangeIDRes
	st, _ = g.sendRaw(step{nfs4.OpExchangeID, a, &got})
	assert.Equal(t, nfs4.OK, st)
	got.ClientID = want.ClientID
	assert.Equal(t, want, got)
}

// TestLongOpaques checks opaques that are longer than the standard allows
// (R8881-3.1-1).
func TestLongOpaques(t *testing.T) {
	g := newTestServer(t).becomeRoot().connectClient()
	g.makeFile("f", "content")
	for n, want := range map[int]nfs4.Status{nfs4.FHSize: nfs4.ErrBadHandle, nfs4.FHSize + 1: nfs4.ErrBadXDR} {
		st, _ := g.sendSteps(putStep(make(nfs4.FH, n)))
		assert.Equal(t, want, st, n)
	}
	for n, want := range map[int]nfs4.Status{1024: nfs4.OK, 1025: nfs4.ErrBadXDR} {
		_, _, st := g.openName(openArgs(string(make([]byte, n)), "f", nfs4.ShareRead, 0, nfs4.NoCreate))
		assert.Equal(t, want, st, n)
		_, st = g.exchangeID(string(make([]byte, n)), 1, 0)
		assert.Equal(t, want, st, n)
	}
}
