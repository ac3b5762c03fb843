package nfs4server

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestRetryMovesItem repeats calls whose data stand in the call, or in a Read
// chunk, the other way: each is executed once, and its retry gets the same reply,
// however near to SEQUENCE the data begin (RFC 8881, Section 2.10.6.1.3.1).
func TestRetryMovesItem(t *testing.T) {
	all := exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})
	g := newTestServer(t, exportset.Export{Path: "/", FS: mem.New(mem.Options{Size: 1 << 30}), Clients: all}).connectClient().becomeRoot()
	st, _ := g.sendSteps(putRootStep(), step{nfs4.OpOpen, openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked), new(nfs4.OpenRes)})
	require.Equal(t, nfs4.OK, st)
	data := []byte("0123456789abcdef")
	write := step{nfs4.OpWrite, &nfs4.WriteArgs{Data: data}, nil}
	link := &nfs4.CreateArgs{Type: nfs4.TypeLnk, LinkData: data}
	access := step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 1}, nil}
	for name, steps := range map[string][]step{
		"WRITE":              {putRootStep(), lookupStep("f"), write, access},
		"WRITE after ACCESS": {putRootStep(), access, lookupStep("f"), write},
		"symbolic link":      {putRootStep(), {nfs4.OpCreate, link, nil}, access},
		"link after ACCESS":  {putRootStep(), access, {nfs4.OpCreate, link, nil}},
		"link after GETFH":   {putRootStep(), {nfs4.OpGetFH, &void, nil}, {nfs4.OpSaveFH, &void, nil}, {nfs4.OpCreate, link, nil}},
	} {
		for _, moved := range []bool{false, true} {
			link.Name = []byte(name + map[bool]string{true: " moved"}[moved])
			g.seq++
			message := g.encodeCompound(append([]step{g.sequenceStep(g.seq, true)}, steps...)...)
			send := func(moved bool) []byte {
				args := xdr.NewReader(message)
				if at := bytes.Index(message, data); moved {
					b := append(append([]byte{}, message[:at]...), message[at+len(data):]...)
					args = xdr.NewReader(b)
					args.SetItem(at, data)
				}
				call := oncrpc.Call{Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: g.cred, Peer: g.peer, Args: args, MaxReply: 1 << 20}
				var rep oncrpc.Reply
				require.NoError(t, g.s.ServeRPC(context.Background(), &call, &rep))
				return rep.Head
			}
			first := send(moved)
			st, n := statusOfReply(t, first)
			assert.Equal(t, nfs4.OK, st, "%s: operation %d", name, n)
			assert.Equal(t, first, send(!moved), name)
		}
	}
}

// TestBeforeItem cuts operations at each byte: the digest needs no whole ones.
func TestBeforeItem(t *testing.T) {
	g := newTestServer(t)
	for _, last := range []step{mkdirStep("d"), {nfs4.OpWrite, &nfs4.WriteArgs{}, nil}, {nfs4.OpGetFH, &void, nil}} {
		b := g.encodeCompound(putRootStep(), lookupStep("name"), last)[12+len("tag")+1:]
		for n := range len(b) + 1 {
			for ops := range uint32(5) {
				assert.Positive(t, lenBeforeData(b[:n], ops))
			}
		}
	}
	long := xdr.AppendUint32(xdr.AppendUint32(nil, uint32(nfs4.OpPutFH)), ^uint32(0))
	assert.Equal(t, digestLen, lenBeforeData(long, 5))
}
