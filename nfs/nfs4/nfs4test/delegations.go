package nfs4test

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

func delegReturn(id nfs4.StateID) op {
	return op{nfs4.OpDelegReturn, &nfs4.StateIDArgs{StateID: id}, status()}
}

// A delegated is a file of which a client has a delegation.
type delegated struct {
	opened
	delegation nfs4.StateID
	back       *backchannel
}

// delegated makes a file with some data, and a client with a delegation of it that
// has the file open.
func (t *T) delegated(name string) *delegated {
	f := t.file(name, "data")
	t.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
	s, b := t.backed()
	var res nfs4.OpenRes
	for deadline := time.Now().Add(callLimit); ; {
		s.want(nfs4.OK, putFH(t.dir()), open(openName(name, "reader", nfs4.ShareRead, 0), &res))
		if res.Delegation.Type == nfs4.DelegateRead || time.Now().After(deadline) {
			break
		}
		s.want(nfs4.OK, putFH(f.fh), closeFile(res.StateID))
		time.Sleep(200 * time.Millisecond) // Linux has the file open for writing for a while
	}
	require.Equal(t, nfs4.DelegateRead, res.Delegation.Type, "OPEN for reading gives a delegation")
	assert.False(t, res.Delegation.Recall)
	return &delegated{opened{f.fh, res.StateID, s}, res.Delegation.StateID, b}
}

// returned returns the delegation when it is recalled.
func (d *delegated) returned() chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a := d.back.recalled()
		assert.Equal(d.s.t, d.delegation.Other, a.StateID.Other)
		assert.Equal(d.s.t, d.fh, a.Object)
		d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
	}()
	return done
}

// eventually makes a COMPOUND until its status is another than NFS4ERR_DELAY.
func (s *session) eventually(want nfs4.Status, ops func() []op) {
	var rep *reply
	for deadline := time.Now().Add(callLimit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if rep = s.do(ops()...); rep.status != nfs4.ErrDelay {
			break
		}
	}
	assert.Equal(s.t, want, rep.status)
}

// delegations are scenarios of delegations for reading.
var delegations = []Scenario{
	{Name: "READ by a delegation", By: "RFC 8881, 8.2.5: the stateid of a delegation is for reading, and outlasts CLOSE", run: func(t *T) {
		d := t.delegated("f")
		var res nfs4.ReadRes
		d.s.want(nfs4.OK, putFH(d.fh), read(d.delegation, 0, 10, &res))
		assert.Equal(t, "data", string(res.Data))
		d.s.want(nfs4.OK, putFH(d.fh), closeFile(d.id), read(d.delegation, 0, 10, &res))
		d.s.want(nfs4.ErrOpenMode, putFH(d.fh), write(d.delegation, 0, nfs4.FileSync, "x", new(nfs4.WriteRes)))
		var seen seen
		d.s.want(nfs4.OK, testStateID(&seen, d.delegation))
		assert.Equal(t, []nfs4.Status{nfs4.OK}, seen.all)
		d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
		d.s.want(nfs4.ErrBadStateID, putFH(d.fh), delegReturn(d.delegation))
		d.s.want(nfs4.ErrBadStateID, putFH(d.fh), read(d.delegation, 0, 10, &res))
	}},
	{Name: "CLOSE and LOCK by a delegation", By: "RFC 8881, 18.2.3, 18.10.3: they need the stateid of an open", run: func(t *T) {
		d := t.delegated("f")
		d.s.want(nfs4.ErrBadStateID, putFH(d.fh), closeFile(d.delegation))
		d.s.want(nfs4.ErrBadStateID, putFH(d.fh), downgrade(d.delegation, nfs4.ShareRead, 0, new(nfs4.StateIDRes)))
		d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
	}},
	{Name: "DELEGRETURN of what is no delegation of the client", By: "RFC 8881, 18.6.3", run: func(t *T) {
		d := t.delegated("f")
		d.s.want(nfs4.ErrBadStateID, putFH(d.fh), delegReturn(d.id))
		t.want(nfs4.ErrBadStateID, putFH(d.fh), delegReturn(d.delegation))
		d.s.want(nfs4.ErrNoFileHandle, delegReturn(d.delegation))
		later := d.delegation
		later.SeqID += 5
		d.s.want(nfs4.ErrBadStateID, putFH(d.fh), delegReturn(later))
		d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
	}},
	{Name: "OPEN by a delegation", By: "RFC 8881, 18.16.3: CLAIM_DELEG_CUR_FH and CLAIM_DELEGATE_CUR", run: func(t *T) {
		d := t.delegated("f")
		var res nfs4.OpenRes
		a := openFH("other", nfs4.ShareRead, 0)
		a.Claim, a.StateID = nfs4.ClaimDelegCurFH, d.delegation
		d.s.want(nfs4.OK, putFH(d.fh), open(a, &res), closeCurrent())
		a.Claim, a.Name = nfs4.ClaimDelegateCur, []byte("f")
		d.s.want(nfs4.OK, putFH(t.dir()), open(a, &res), closeCurrent())
		a.StateID.Other[11]++
		d.s.want(nfs4.ErrBadStateID, putFH(t.dir()), open(a, &res))
		d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
	}},
	{Name: "no delegation where the client wants none", By: "RFC 8881, 18.16.3: OPEN4_SHARE_ACCESS_WANT_NO_DELEG", run: func(t *T) {
		f := t.file("f", "data")
		t.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
		s, _ := t.backed()
		var res nfs4.OpenRes
		s.want(nfs4.OK, putFH(t.dir()), open(openName("f", "reader", nfs4.ShareRead|nfs4.WantNoDeleg, 0), &res))
		assert.Equal(t, nfs4.DelegateNoneExt, res.Delegation.Type)
		assert.Equal(t, nfs4.WhyNotWanted, res.Delegation.Why)
	}},
	{Name: "no delegation of a file that is open for writing", By: "RFC 8881, 10.4: others' opens that conflict", run: func(t *T) {
		t.file("f", "data")
		s, _ := t.backed()
		var res nfs4.OpenRes
		s.want(nfs4.OK, putFH(t.dir()), open(openName("f", "reader", nfs4.ShareRead, 0), &res))
		assert.Contains(t, []nfs4.Delegation{nfs4.DelegateNone, nfs4.DelegateNoneExt}, res.Delegation.Type)
	}},
	{Name: "no delegation without a backchannel", By: "RFC 8881, 10.2: a delegation needs a callback path", run: func(t *T) {
		f := t.file("f", "data")
		t.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
		var res nfs4.OpenRes
		t.want(nfs4.OK, putFH(t.dir()), open(openName("f", "reader", nfs4.ShareRead, 0), &res))
		assert.Contains(t, []nfs4.Delegation{nfs4.DelegateNone, nfs4.DelegateNoneExt}, res.Delegation.Type)
	}},
	{Name: "OPEN for writing recalls a delegation", By: "RFC 8881, 10.4", run: func(t *T) {
		d := t.delegated("f")
		done := d.returned()
		t.session().eventually(nfs4.OK, func() []op {
			return []op{putFH(d.fh), open(openFH("writer", nfs4.ShareWrite, 0), new(nfs4.OpenRes))}
		})
		<-done
	}},
	{Name: "CB_RECALL has no seqid", By: "RFC 8881, 8.2.2: the seqid of a stateid in a callback MUST be zero", Linux: "it is that of the delegation", run: func(t *T) {
		d := t.delegated("f")
		done := make(chan struct{})
		go func() {
			defer close(done)
			assert.Zero(t, d.back.recalled().StateID.SeqID)
			d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
		}()
		t.session().eventually(nfs4.OK, func() []op { return []op{putFH(t.dir()), remove("f")} })
		<-done
	}},
	{Name: "SETATTR recalls a delegation", By: "RFC 8881, 10.4: attributes are delegated too", run: func(t *T) {
		d := t.delegated("f")
		done := d.returned()
		t.session().eventually(nfs4.OK, func() []op { return []op{putFH(d.fh), setAttr(nfs4.AnonymousStateID, mode(0o600))} })
		<-done
	}},
	{Name: "REMOVE recalls a delegation", By: "RFC 8881, 10.4", run: func(t *T) {
		d := t.delegated("f")
		done := d.returned()
		t.session().eventually(nfs4.OK, func() []op { return []op{putFH(t.dir()), remove("f")} })
		<-done
	}},
	{Name: "RENAME over a file recalls its delegation", By: "RFC 8881, 10.4", run: func(t *T) {
		t.file("g", "new")
		d := t.delegated("f")
		done := d.returned()
		t.session().eventually(nfs4.OK, func() []op { return []op{putFH(t.dir()), saveFH(), rename("g", "f")} })
		<-done
	}},
	{Name: "reading leaves a delegation alone", By: "RFC 8881, 10.4", run: func(t *T) {
		d := t.delegated("f")
		var res nfs4.OpenRes
		t.want(nfs4.OK, putFH(d.fh), open(openFH("reader", nfs4.ShareRead, 0), &res), read(nfs4.CurrentStateID, 0, 10, new(nfs4.ReadRes)), closeCurrent())
		t.want(nfs4.OK, putFH(d.fh), read(nfs4.AnonymousStateID, 0, 10, new(nfs4.ReadRes)))
		d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
		assert.Empty(t, d.back.calls)
	}},
	{Name: "opens are made again before a delegation is returned", By: "RFC 8881, 10.2: while CB_RECALL is outstanding, the client's opens by the delegation succeed", run: func(t *T) {
		d := t.delegated("f")
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.back.recalled()
			var res nfs4.OpenRes
			a := openFH("other", nfs4.ShareRead, 0)
			a.Claim, a.StateID = nfs4.ClaimDelegCurFH, d.delegation
			d.s.want(nfs4.OK, putFH(d.fh), open(a, &res))
			d.s.want(nfs4.OK, putFH(d.fh), delegReturn(d.delegation))
			d.s.want(nfs4.OK, putFH(d.fh), read(res.StateID, 0, 10, new(nfs4.ReadRes)))
		}()
		t.session().eventually(nfs4.OK, func() []op {
			return []op{putFH(d.fh), open(openFH("writer", nfs4.ShareWrite, 0), new(nfs4.OpenRes))}
		})
		<-done
	}},
	{Name: "DESTROY_CLIENTID with a delegation", By: "RFC 8881, 18.50.3: NFS4ERR_CLIENTID_BUSY", run: func(t *T) {
		d := t.delegated("f")
		d.s.want(nfs4.OK, putFH(d.fh), closeFile(d.id))
		c := t.dial()
		c.alone(nfs4.OK, destroySessionOp(d.s.id))
		c.alone(nfs4.ErrClientIDBusy, op{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: d.s.client.id}, status()})
	}},
}
