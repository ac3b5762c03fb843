package nfs4

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestOnce checks which NFSv4.0 calls are not executed again (R7530-16.33-6):
// operations that change nothing do not hide one that does, whatever their arguments
// are, and no message makes Once read beyond its end.
func TestOnce(t *testing.T) {
	type part struct {
		op   Op
		args Message
	}
	mask := BitmapOf(AttrSize, AttrMode)
	harmless := []part{
		{OpPutRootFH, &Void{}},
		{OpPutPubFH, &Void{}},
		{OpSaveFH, &Void{}},
		{OpRestoreFH, &Void{}},
		{OpGetFH, &Void{}},
		{OpLookupP, &Void{}},
		{OpReadLink, &Void{}},
		{OpAccess, &AccessArgs{}},
		{OpRenew, &ClientIDArgs{}},
		{OpCommit, &CommitArgs{}},
		{OpRead, &ReadArgs{}},
		{OpPutFH, &HandleArgs{Object: FH("handle")}},
		{OpLookup, &NameArgs{Name: []byte("n")}},
		{OpSecInfo, &NameArgs{Name: []byte("name")}},
		{OpGetAttr, &GetAttrArgs{Request: mask}},
		{OpVerify, &VerifyArgs{Attrs: Attrs{Mask: mask}}},
		{OpNVerify, &VerifyArgs{}},
		{OpReadDir, &ReadDirArgs{Request: mask}},
		{OpLockT, &LockTArgs{Type: LockRead, Owner: StateOwner{Owner: []byte("owner")}}},
	}
	message := func(minor uint32, parts ...part) []byte {
		b := (&CompoundArgs{Tag: []byte("tag"), Minor: minor, N: uint32(len(parts))}).AppendTo(nil)
		for _, p := range parts {
			b = AppendOp(b, p.op, p.args)
		}
		return rpcCall(ProcCompound, b)
	}
	known := map[Op]bool{}
	for _, p := range harmless {
		known[p.op] = true
		assert.False(t, Once(message(0, p)), p.op)
		assert.True(t, Once(message(0, p, part{OpRemove, &NameArgs{}})), p.op)
		assert.False(t, Once(message(1, p, part{OpRemove, &NameArgs{}})), p.op)
	}
	for op := OpAccess; op <= OpReleaseLockOwner; op++ {
		assert.Equal(t, !known[op], Once(message(0, part{op, &Void{}})), op)
	}
	all := message(0, append(harmless, part{OpSetClientID, &SetClientIDArgs{}})...)
	assert.True(t, Once(all))
	assert.Zero(t, testing.AllocsPerRun(10, func() { Once(all) }))
	for n := range all {
		Once(all[:n])
		for _, v := range []byte{0x7f, 0x80, 0xff} {
			bad := append([]byte(nil), all...)
			bad[n] = v
			Once(bad)
		}
	}
	endless := rpcCall(ProcCompound, (&CompoundArgs{N: ^uint32(0)}).AppendTo(nil))
	assert.False(t, Once(endless), "a count that no message holds")
	assert.False(t, Once(rpcCall(ProcNull, all)))
	assert.False(t, Once(rpcCall(ProcCompound, xdr.AppendUint32(nil, 0))))
}
