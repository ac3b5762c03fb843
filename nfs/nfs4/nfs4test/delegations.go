package nfs4test

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

func delegReturnOp(id nfs4.StateID) op {
	return op{nfs4.OpDelegReturn, &nfs4.StateIDArgs{StateID: id}, statusRes()}
}

// A delegatedFile is a file that is delegated to a client.
type delegatedFile struct {
	openedFile
	delegation nfs4.StateID
	back       *backchannel
}

// newReadDelegation creates a file with data, opens it by a new client, and gets a read
// delegation.
func (t *T) newReadDelegation(name string) *delegatedFile {
	f := t.newFile(name, "data")
	t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
	s, b := t.newBackchannelSession()
	var res nfs4.OpenRes
	for deadline := time.Now().Add(callLimit); ; {
		s.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(openName(name, "reader", nfs4.ShareRead, 0), &res))
		if res.Delegation.Type == nfs4.DelegateRead || time.Now().After(deadline) {
			break
		}
		s.expectStatus(nfs4.OK, putFH(f.fh), closeFile(res.StateID))
		time.Sleep(200 * time.Millisecond) // Linux has the file open for writing for a while
	}
	require.Equal(t, nfs4.DelegateRead, res.Delegation.Type, "OPEN for reading gives a delegation")
	assert.False(t, res.Delegation.Recall)
	return &delegatedFile{openedFile{f.fh, res.StateID, s}, res.Delegation.StateID, b}
}

// returnOnRecall starts to wait for CB_RECALL, and then returns the delegation.
func (d *delegatedFile) returnOnRecall() chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a := d.back.awaitRecall()
		assert.Equal(d.s.t, d.delegation.Other, a.StateID.Other)
		assert.Equal(d.s.t, d.fh, a.Object)
		d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
	}()
	return done
}

// retryDelayed sends a COMPOUND until the status is not NFS4ERR_DELAY.
func (s *session) retryDelayed(want nfs4.Status, ops func() []op) {
	var rep *reply
	for deadline := time.Now().Add(callLimit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if rep = s.callWithSequence(ops()...); rep.status != nfs4.ErrDelay {
			break
		}
	}
	assert.Equal(s.t, want, rep.status)
}

// delegations are scenarios for read delegations.
var delegations = []Scenario{
	{Name: "READ by a delegation", By: "RFC 8881, 8.2.5: the stateid of a delegation is for reading, and outlasts CLOSE", run: func(t *T) {
		d := t.newReadDelegation("f")
		var res nfs4.ReadRes
		d.s.expectStatus(nfs4.OK, putFH(d.fh), readOp(d.delegation, 0, 10, &res))
		assert.Equal(t, "data", string(res.Data))
		d.s.expectStatus(nfs4.OK, putFH(d.fh), closeFile(d.id), readOp(d.delegation, 0, 10, &res))
		d.s.expectStatus(nfs4.ErrOpenMode, putFH(d.fh), writeOp(d.delegation, 0, nfs4.FileSync, "x", new(nfs4.WriteRes)))
		var seen testedStateIDs
		d.s.expectStatus(nfs4.OK, testStateID(&seen, d.delegation))
		assert.Equal(t, []nfs4.Status{nfs4.OK}, seen.statuses)
		d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
		d.s.expectStatus(nfs4.ErrBadStateID, putFH(d.fh), delegReturnOp(d.delegation))
		d.s.expectStatus(nfs4.ErrBadStateID, putFH(d.fh), readOp(d.delegation, 0, 10, &res))
	}},
	{Name: "CLOSE and LOCK by a delegation", By: "RFC 8881, 18.2.3, 18.10.3: they need the stateid of an open", run: func(t *T) {
		d := t.newReadDelegation("f")
		d.s.expectStatus(nfs4.ErrBadStateID, putFH(d.fh), closeFile(d.delegation))
		d.s.expectStatus(nfs4.ErrBadStateID, putFH(d.fh), downgradeOp(d.delegation, nfs4.ShareRead, 0, new(nfs4.StateIDRes)))
		d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
	}},
	{Name: "DELEGRETURN of what is no delegation of the client", By: "RFC 8881, 18.6.3", run: func(t *T) {
		d := t.newReadDelegation("f")
		d.s.expectStatus(nfs4.ErrBadStateID, putFH(d.fh), delegReturnOp(d.id))
		t.expectStatus(nfs4.ErrBadStateID, putFH(d.fh), delegReturnOp(d.delegation))
		d.s.expectStatus(nfs4.ErrNoFileHandle, delegReturnOp(d.delegation))
		later := d.delegation
		later.SeqID += 5
		d.s.expectStatus(nfs4.ErrBadStateID, putFH(d.fh), delegReturnOp(later))
		d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
	}},
	{Name: "OPEN by a delegation", By: "RFC 8881, 18.16.3: CLAIM_DELEG_CUR_FH and CLAIM_DELEGATE_CUR", run: func(t *T) {
		d := t.newReadDelegation("f")
		var res nfs4.OpenRes
		a := openFH("other", nfs4.ShareRead, 0)
		a.Claim, a.StateID = nfs4.ClaimDelegCurFH, d.delegation
		d.s.expectStatus(nfs4.OK, putFH(d.fh), openOp(a, &res), closeCurrentOp())
		a.Claim, a.Name = nfs4.ClaimDelegateCur, []byte("f")
		d.s.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(a, &res), closeCurrentOp())
		a.StateID.Other[11]++
		d.s.expectStatus(nfs4.ErrBadStateID, putFH(t.ownDir()), openOp(a, &res))
		d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
	}},
	{Name: "no delegation where the client wants none", By: "RFC 8881, 18.16.3: OPEN4_SHARE_ACCESS_WANT_NO_DELEG", run: func(t *T) {
		f := t.newFile("f", "data")
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
		s, _ := t.newBackchannelSession()
		var res nfs4.OpenRes
		s.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(openName("f", "reader", nfs4.ShareRead|nfs4.WantNoDeleg, 0), &res))
		assert.Equal(t, nfs4.DelegateNoneExt, res.Delegation.Type)
		assert.Equal(t, nfs4.WhyNotWanted, res.Delegation.Why)
	}},
	{Name: "no delegation of a file that is open for writing", By: "RFC 8881, 10.4: others' opens that conflict", run: func(t *T) {
		t.newFile("f", "data")
		s, _ := t.newBackchannelSession()
		var res nfs4.OpenRes
		s.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(openName("f", "reader", nfs4.ShareRead, 0), &res))
		assert.Contains(t, []nfs4.Delegation{nfs4.DelegateNone, nfs4.DelegateNoneExt}, res.Delegation.Type)
	}},
	{Name: "no delegation without a backchannel", By: "RFC 8881, 10.2: a delegation needs a callback path", run: func(t *T) {
		f := t.newFile("f", "data")
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
		var res nfs4.OpenRes
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(openName("f", "reader", nfs4.ShareRead, 0), &res))
		assert.Contains(t, []nfs4.Delegation{nfs4.DelegateNone, nfs4.DelegateNoneExt}, res.Delegation.Type)
	}},
	{Name: "OPEN for writing recalls a delegation", By: "RFC 8881, 10.4", run: func(t *T) {
		d := t.newReadDelegation("f")
		done := d.returnOnRecall()
		t.ownSession().retryDelayed(nfs4.OK, func() []op {
			return []op{putFH(d.fh), openOp(openFH("writer", nfs4.ShareWrite, 0), new(nfs4.OpenRes))}
		})
		<-done
	}},
	{Name: "CB_RECALL has no seqid", By: "RFC 8881, 8.2.2: the seqid of a stateid in a callback MUST be zero", Linux: "it is that of the delegation", run: func(t *T) {
		d := t.newReadDelegation("f")
		done := make(chan struct{})
		go func() {
			defer close(done)
			assert.Zero(t, d.back.awaitRecall().StateID.SeqID)
			d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
		}()
		t.ownSession().retryDelayed(nfs4.OK, func() []op { return []op{putFH(t.ownDir()), removeOp("f")} })
		<-done
	}},
	{Name: "SETATTR recalls a delegation", By: "RFC 8881, 10.4: attributes are delegated too", run: func(t *T) {
		d := t.newReadDelegation("f")
		done := d.returnOnRecall()
		t.ownSession().retryDelayed(nfs4.OK, func() []op { return []op{putFH(d.fh), setAttr(nfs4.AnonymousStateID, modeAttrs(0o600))} })
		<-done
	}},
	{Name: "REMOVE recalls a delegation", By: "RFC 8881, 10.4", run: func(t *T) {
		d := t.newReadDelegation("f")
		done := d.returnOnRecall()
		t.ownSession().retryDelayed(nfs4.OK, func() []op { return []op{putFH(t.ownDir()), removeOp("f")} })
		<-done
	}},
	{Name: "RENAME over a file recalls its delegation", By: "RFC 8881, 10.4", run: func(t *T) {
		t.newFile("g", "new")
		d := t.newReadDelegation("f")
		done := d.returnOnRecall()
		t.ownSession().retryDelayed(nfs4.OK, func() []op { return []op{putFH(t.ownDir()), saveFH(), renameOp("g", "f")} })
		<-done
	}},
	{Name: "reading leaves a delegation alone", By: "RFC 8881, 10.4", run: func(t *T) {
		d := t.newReadDelegation("f")
		var res nfs4.OpenRes
		t.expectStatus(nfs4.OK, putFH(d.fh), openOp(openFH("reader", nfs4.ShareRead, 0), &res), readOp(nfs4.CurrentStateID, 0, 10, new(nfs4.ReadRes)), closeCurrentOp())
		t.expectStatus(nfs4.OK, putFH(d.fh), readOp(nfs4.AnonymousStateID, 0, 10, new(nfs4.ReadRes)))
		d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
		assert.Empty(t, d.back.recalls)
	}},
	{Name: "opens are made again before a delegation is returned", By: "RFC 8881, 10.2: while CB_RECALL is outstanding, the client's opens by the delegation succeed", run: func(t *T) {
		d := t.newReadDelegation("f")
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.back.awaitRecall()
			var res nfs4.OpenRes
			a := openFH("other", nfs4.ShareRead, 0)
			a.Claim, a.StateID = nfs4.ClaimDelegCurFH, d.delegation
			d.s.expectStatus(nfs4.OK, putFH(d.fh), openOp(a, &res))
			d.s.expectStatus(nfs4.OK, putFH(d.fh), delegReturnOp(d.delegation))
			d.s.expectStatus(nfs4.OK, putFH(d.fh), readOp(res.StateID, 0, 10, new(nfs4.ReadRes)))
		}()
		t.ownSession().retryDelayed(nfs4.OK, func() []op {
			return []op{putFH(d.fh), openOp(openFH("writer", nfs4.ShareWrite, 0), new(nfs4.OpenRes))}
		})
		<-done
	}},
	{Name: "DESTROY_CLIENTID with a delegation", By: "RFC 8881, 18.50.3: NFS4ERR_CLIENTID_BUSY", run: func(t *T) {
		d := t.newReadDelegation("f")
		d.s.expectStatus(nfs4.OK, putFH(d.fh), closeFile(d.id))
		c := t.dial()
		c.callWithoutSequence(nfs4.OK, destroySessionOp(d.s.id))
		c.callWithoutSequence(nfs4.ErrClientIDBusy, op{nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: d.s.client.id}, statusRes()})
	}},
}
