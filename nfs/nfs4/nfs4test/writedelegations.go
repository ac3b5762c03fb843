package nfs4test

import (
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// newWriteDelegation creates a file with data, opens it by a new client, and gets a write
// delegation.
func (t *T) newWriteDelegation(name string) *delegatedFile {
	f := t.newFile(name, "data")
	t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
	s, b := t.newBackchannelSession()
	var res nfs4.OpenRes
	s.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(openName(name, "writer", nfs4.ShareBoth, 0), &res))
	require.Equal(t, nfs4.DelegateWrite, res.Delegation.Type, "OPEN for writing gives a delegation")
	assert.False(t, res.Delegation.Recall)
	return &delegatedFile{openedFile{f.fh, res.StateID, s}, res.Delegation.StateID, b}
}

// writeOnRecall starts to wait for CB_RECALL, and then writes data and returns the
// delegation.
func (d *delegatedFile) writeOnRecall(data string) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a := d.back.awaitRecall()
		assert.Equal(d.s.t, d.delegation.Other, a.StateID.Other)
		assert.False(d.s.t, a.Truncate)
		d.s.expectStatus(nfs4.OK, putFH(d.fh), writeOp(d.delegation, 0, nfs4.FileSync, data, new(nfs4.WriteRes)), delegReturnOp(d.delegation))
	}()
	return done
}

// notWriting says how the Linux 6.1 server differs.
const notWriting = "it gives no delegations for writing"

// writeDelegations are scenarios for write delegations.
var writeDelegations = []Scenario{
	{Name: "WRITE and READ by a delegation for writing", By: "RFC 8881, 8.2.5, 10.4: its stateid is for both", Linux: notWriting, run: func(t *T) {
		d := t.newWriteDelegation("f")
		var res nfs4.ReadRes
		d.s.expectStatus(nfs4.OK, putFH(d.fh), closeFile(d.id), writeOp(d.delegation, 0, nfs4.FileSync, "DATA", new(nfs4.WriteRes)), readOp(d.delegation, 0, 10, &res))
		assert.Equal(t, "DATA", string(res.Data))
		d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
		d.s.expectStatus(nfs4.ErrBadStateID, putFH(d.fh), writeOp(d.delegation, 0, nfs4.FileSync, "late", new(nfs4.WriteRes)))
		assert.Empty(t, d.back.recalls)
	}},
	{Name: "OPEN for writing by a delegation for writing", By: "RFC 8881, 18.16.3: CLAIM_DELEG_CUR_FH", Linux: notWriting, run: func(t *T) {
		d := t.newWriteDelegation("f")
		a := openFH("other", nfs4.ShareBoth, 0)
		a.Claim, a.StateID = nfs4.ClaimDelegCurFH, d.delegation
		d.s.expectStatus(nfs4.OK, putFH(d.fh), openOp(a, new(nfs4.OpenRes)), closeCurrentOp())
		d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
		assert.Empty(t, d.back.recalls)
	}},
	{Name: "OPEN for reading recalls a delegation for writing", By: "RFC 8881, 10.4.4", Linux: notWriting, run: func(t *T) {
		d := t.newWriteDelegation("f")
		done := d.writeOnRecall("DATA")
		var res nfs4.ReadRes
		t.ownSession().retryDelayed(nfs4.OK, func() []op {
			return []op{putFH(d.fh), openOp(openFH("reader", nfs4.ShareRead, 0), new(nfs4.OpenRes)), readOp(nfs4.CurrentStateID, 0, 10, &res)}
		})
		<-done
		assert.Equal(t, "DATA", string(res.Data))
	}},
	{Name: "READ without an open recalls a delegation for writing", By: "RFC 8881, 18.22.3", Linux: notWriting, run: func(t *T) {
		d := t.newWriteDelegation("f")
		done := d.writeOnRecall("DATA")
		var res nfs4.ReadRes
		t.ownSession().retryDelayed(nfs4.OK, func() []op { return []op{putFH(d.fh), readOp(nfs4.BypassStateID, 0, 10, &res)} })
		<-done
		assert.Equal(t, "DATA", string(res.Data))
	}},
	{Name: "GETATTR of a file that a client writes in its cache", By: "RFC 8881, 10.4.3, 18.7.4: CB_GETATTR", Linux: notWriting, run: func(t *T) {
		d := t.newWriteDelegation("f")
		request := nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize)
		var own, first, second nfs4.GetAttrRes
		d.s.expectStatus(nfs4.OK, putFH(d.fh), getAttr(&own, nfs4.AttrChange, nfs4.AttrSize))
		var mu sync.Mutex
		var object nfs4.FH
		d.back.getAttrRes = func(a nfs4.CBGetAttrArgs) nfs4.GetAttrRes {
			mu.Lock()
			defer mu.Unlock()
			object = a.Object
			return nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: request, Change: own.Attrs.Change + 1, Size: 1000}}
		}
		t.expectStatus(nfs4.OK, putFH(d.fh), getAttr(&first, nfs4.AttrChange, nfs4.AttrSize))
		t.expectStatus(nfs4.OK, putFH(d.fh), getAttr(&second, nfs4.AttrChange, nfs4.AttrSize))
		assert.EqualValues(t, 1000, first.Attrs.Size)
		assert.Greater(t, first.Attrs.Change, own.Attrs.Change)
		assert.Greater(t, second.Attrs.Change, first.Attrs.Change, "the client may have changed the file again")
		mu.Lock()
		assert.Equal(t, d.fh, object)
		mu.Unlock()
		assert.Empty(t, d.back.recalls)
		d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
	}},
	{Name: "GETATTR of a client that does not answer CB_GETATTR", By: "RFC 8881, 10.4.3, 18.7.4: the delegation is recalled", Linux: notWriting, run: func(t *T) {
		d := t.newWriteDelegation("f")
		done := d.writeOnRecall("more data")
		var res nfs4.GetAttrRes
		t.ownSession().retryDelayed(nfs4.OK, func() []op { return []op{putFH(d.fh), getAttr(&res, nfs4.AttrSize)} })
		<-done
		assert.EqualValues(t, 9, res.Attrs.Size)
	}},
}
