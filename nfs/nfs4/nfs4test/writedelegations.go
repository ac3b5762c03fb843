package nfs4test

import (
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// writing makes a file with some data, and a client with a delegation of it for
// writing that has the file open.
func (t *T) writing(name string) *delegated {
	f := t.file(name, "data")
	t.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
	s, b := t.backed()
	var res nfs4.OpenRes
	s.want(nfs4.OK, putFH(t.dir()), open(openName(name, "writer", nfs4.ShareBoth, 0), &res))
	require.Equal(t, nfs4.DelegateWrite, res.Delegation.Type, "OPEN for writing gives a delegation")
	assert.False(t, res.Delegation.Recall)
	return &delegated{opened{f.fh, res.StateID, s}, res.Delegation.StateID, b}
}

// written returns the delegation when it is recalled, after data is written by it.
func (d *delegated) written(data string) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a := d.back.recalled()
		assert.Equal(d.s.t, d.delegation.Other, a.StateID.Other)
		assert.False(d.s.t, a.Truncate)
		d.s.want(nfs4.OK, putFH(d.fh), write(d.delegation, 0, nfs4.FileSync, data, new(nfs4.WriteRes)), delegReturn(d.delegation))
	}()
	return done
}

// notWriting is how the server of Linux 6.1 differs.
const notWriting = "it gives no delegations for writing"

// writeDelegations are scenarios of delegations for writing.
var writeDelegations = []Scenario{
	{Name: "WRITE and READ by a delegation for writing", By: "RFC 8881, 8.2.5, 10.4: its stateid is for both", Linux: notWriting, run: func(t *T) {
		d := t.writing("f")
		var res nfs4.ReadRes
		d.s.want(nfs4.OK, putFH(d.fh), closeFile(d.id), write(d.delegation, 0, nfs4.FileSync, "DATA", new(nfs4.WriteRes)), read(d.delegation, 0, 10, &res))
		assert.Equal(t, "DATA", string(res.Data))
		d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
		d.s.want(nfs4.ErrBadStateID, putFH(d.fh), write(d.delegation, 0, nfs4.FileSync, "late", new(nfs4.WriteRes)))
		assert.Empty(t, d.back.calls)
	}},
	{Name: "OPEN for writing by a delegation for writing", By: "RFC 8881, 18.16.3: CLAIM_DELEG_CUR_FH", Linux: notWriting, run: func(t *T) {
		d := t.writing("f")
		a := openFH("other", nfs4.ShareBoth, 0)
		a.Claim, a.StateID = nfs4.ClaimDelegCurFH, d.delegation
		d.s.want(nfs4.OK, putFH(d.fh), open(a, new(nfs4.OpenRes)), closeCurrent())
		d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
		assert.Empty(t, d.back.calls)
	}},
	{Name: "OPEN for reading recalls a delegation for writing", By: "RFC 8881, 10.4.4", Linux: notWriting, run: func(t *T) {
		d := t.writing("f")
		done := d.written("DATA")
		var res nfs4.ReadRes
		t.session().eventually(nfs4.OK, func() []op {
			return []op{putFH(d.fh), open(openFH("reader", nfs4.ShareRead, 0), new(nfs4.OpenRes)), read(nfs4.CurrentStateID, 0, 10, &res)}
		})
		<-done
		assert.Equal(t, "DATA", string(res.Data))
	}},
	{Name: "READ without an open recalls a delegation for writing", By: "RFC 8881, 18.22.3", Linux: notWriting, run: func(t *T) {
		d := t.writing("f")
		done := d.written("DATA")
		var res nfs4.ReadRes
		t.session().eventually(nfs4.OK, func() []op { return []op{putFH(d.fh), read(nfs4.BypassStateID, 0, 10, &res)} })
		<-done
		assert.Equal(t, "DATA", string(res.Data))
	}},
	{Name: "GETATTR of a file that a client writes in its cache", By: "RFC 8881, 10.4.3, 18.7.4: CB_GETATTR", Linux: notWriting, run: func(t *T) {
		d := t.writing("f")
		request := nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize)
		var own, first, second nfs4.GetAttrRes
		d.s.want(nfs4.OK, putFH(d.fh), getAttr(&own, nfs4.AttrChange, nfs4.AttrSize))
		var mu sync.Mutex
		var object nfs4.FH
		d.back.asked = func(a nfs4.CBGetAttrArgs) nfs4.GetAttrRes {
			mu.Lock()
			defer mu.Unlock()
			object = a.Object
			return nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: request, Change: own.Attrs.Change + 1, Size: 1000}}
		}
		t.want(nfs4.OK, putFH(d.fh), getAttr(&first, nfs4.AttrChange, nfs4.AttrSize))
		t.want(nfs4.OK, putFH(d.fh), getAttr(&second, nfs4.AttrChange, nfs4.AttrSize))
		assert.EqualValues(t, 1000, first.Attrs.Size)
		assert.Greater(t, first.Attrs.Change, own.Attrs.Change)
		assert.Greater(t, second.Attrs.Change, first.Attrs.Change, "the client may have changed the file again")
		mu.Lock()
		assert.Equal(t, d.fh, object)
		mu.Unlock()
		assert.Empty(t, d.back.calls)
		d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
	}},
	{Name: "GETATTR of a client that does not answer CB_GETATTR", By: "RFC 8881, 10.4.3, 18.7.4: the delegation is recalled", Linux: notWriting, run: func(t *T) {
		d := t.writing("f")
		done := d.written("more data")
		var res nfs4.GetAttrRes
		t.session().eventually(nfs4.OK, func() []op { return []op{putFH(d.fh), getAttr(&res, nfs4.AttrSize)} })
		<-done
		assert.EqualValues(t, 9, res.Attrs.Size)
	}},
}
