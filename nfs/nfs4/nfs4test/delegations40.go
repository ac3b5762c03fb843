package nfs4test

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// newCallbackClient40 creates an NFSv4.0 client that listens for callbacks.
func (t *T) newCallbackClient40() (*client, *backchannel) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	b := &backchannel{recalls: make(chan callback, 16)}
	var mu sync.Mutex
	var conns []net.Conn
	b.stop = func() {
		mu.Lock()
		defer mu.Unlock()
		l.Close()
		for _, nc := range conns {
			nc.Close()
		}
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, nc)
			mu.Unlock()
			one := &backchannel{conn: &conn{t: t, nc: nc}, recalls: b.recalls}
			go func() {
				defer nc.Close()
				one.serveCalls()
			}()
		}
	}()
	t.addCleanup(b.stop)
	port := l.Addr().(*net.TCPAddr).Port
	c := &client{conn: t.dial(), owner: t.uniqueName(), verifier: nfs4.Verifier{1}}
	c.callback = fmt.Sprintf("%s.%d.%d", cmp.Or(t.CallbackHost, "127.0.0.1"), port>>8, port&0xff)
	b.conn = c.conn
	res := c.setClientID(nfs4.OK)
	c.id = res.ClientID
	c.confirmClientID(nfs4.OK, res.ClientID, res.Confirm)
	return c, b
}

// newDelegation40 creates a file, opens it by a new NFSv4.0 client, and gets a read
// delegation.
func (t *T) newDelegation40() (o *owner, b *backchannel, delegation nfs4.StateID) {
	maker := t.newClient40().newOwner("maker", "f", 1, 0)
	maker.expectStatus(nfs4.OK, putFH(maker.fh), maker.closeOp(maker.nextSeqID(), new(nfs4.StateIDRes)))
	c, b := t.newCallbackClient40()
	o = c.newOwner("o", "other", 1, 0)
	var res nfs4.OpenRes
	for deadline := time.Now().Add(callLimit); ; time.Sleep(200 * time.Millisecond) {
		c.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("f", "", nfs4.ShareRead, 0), &res))
		if res.Delegation.Type == nfs4.DelegateRead || time.Now().After(deadline) {
			break
		}
	}
	require.Equal(t, nfs4.DelegateRead, res.Delegation.Type)
	o.fh, o.id = maker.fh, res.StateID
	return o, b, res.Delegation.StateID
}

// delegations40 are scenarios for NFSv4.0 delegations, whose callbacks arrive
// over a connection that the server opens.
var delegations40 = []Scenario{
	{Name: "a delegation", By: "RFC 7530, 10.4: it reads, and is returned", run: func(t *T) {
		o, _, id := t.newDelegation40()
		o.expectStatus(nfs4.OK, putFH(o.fh), readOp(id, 0, 1, new(nfs4.ReadRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)), readOp(id, 0, 1, new(nfs4.ReadRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), delegReturnOp(id))
		o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), delegReturnOp(id))
	}},
	{Name: "a delegation is recalled", By: "RFC 7530, 10.4.5, 15.2: by CB_RECALL over the server's connection", run: func(t *T) {
		o, b, id := t.newDelegation40()
		done := make(chan struct{})
		go func() {
			defer close(done)
			a := b.awaitRecall()
			assert.Equal(t, id.Other, a.StateID.Other)
			assert.Equal(t, o.fh, a.Object)
			var res nfs4.OpenRes
			again := openName("f", "", nfs4.ShareRead, 0)
			again.Claim, again.StateID = nfs4.ClaimDelegateCur, id
			o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), again, &res))
			o.expectStatus(nfs4.OK, putFH(o.fh), delegReturnOp(id))
		}()
		other := t.newClient40()
		for deadline := time.Now().Add(callLimit); ; time.Sleep(100 * time.Millisecond) {
			rep := other.callCompound(putFH(t.ownDir()), removeOp("f"))
			if rep.status != nfs4.ErrDelay || time.Now().After(deadline) {
				assert.Equal(t, nfs4.OK, rep.status)
				break
			}
		}
		<-done
	}},
	{Name: "a delegation is recalled, whatever client the COMPOUND has named before", By: "RFC 7530, 10.4.4: anybody can know a client ID", Linux: "the named client keeps the delegation", run: func(t *T) {
		o, b, id := t.newDelegation40()
		other := t.newClient40()
		calls := [][]op{
			{releaseLockOwner(o.client.id, "none"), putFH(t.ownDir()), removeOp("f")},
			{{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: o.client.id}, statusRes()}, putFH(o.fh), setAttr(nfs4.StateID{}, modeAttrs(0o600))},
		}
		for _, call := range calls {
			assert.Equal(t, nfs4.ErrDelay, other.callCompound(call...).status)
		}
		b.awaitRecall()
		o.expectStatus(nfs4.OK, putFH(o.fh), delegReturnOp(id))
		for _, call := range slices.Backward(calls) {
			other.expectStatus(nfs4.OK, call...)
		}
	}},
	{Name: "RENEW while the callback does not work", By: "RFC 7530, 16.28.4: NFS4ERR_CB_PATH_DOWN to a client with delegations, whose lease is renewed all the same", Linux: "it does not say so within 10 s", run: func(t *T) {
		o, b, id := t.newDelegation40()
		b.stop()
		other := t.newClient40()
		renew := op{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: o.client.id}, statusRes()}
		var seen nfs4.Status
		for deadline := time.Now().Add(callLimit); seen != nfs4.ErrCBPathDown && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
			rep := other.callCompound(putFH(t.ownDir()), removeOp("f"))
			assert.Equal(t, nfs4.ErrDelay, rep.status)
			seen = o.callCompound(renew).status
		}
		assert.Equal(t, nfs4.ErrCBPathDown, seen)
		o.expectStatus(nfs4.OK, putFH(o.fh), readOp(o.id, 0, 1, new(nfs4.ReadRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), delegReturnOp(id))
		o.expectStatus(nfs4.OK, renew)
		other.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("f"))
	}},
	{Name: "no delegation with an OPEN that must be confirmed", By: "RFC 7530, 9.1.11", run: func(t *T) {
		maker := t.newClient40().newOwner("maker", "f", 1, 0)
		maker.expectStatus(nfs4.OK, putFH(maker.fh), maker.closeOp(maker.nextSeqID(), new(nfs4.StateIDRes)))
		c, _ := t.newCallbackClient40()
		time.Sleep(300 * time.Millisecond)
		var res nfs4.OpenRes
		c.expectStatus(nfs4.OK, putFH(t.ownDir()), c.openSeqOp(1, openName("f", "new", nfs4.ShareRead, 0), &res))
		assert.NotZero(t, res.Flags&nfs4.OpenConfirm)
		assert.Equal(t, nfs4.DelegateNone, res.Delegation.Type)
	}},
	{Name: "no delegation without a callback that answers", By: "RFC 7530, 10.2: the server tries CB_NULL before", run: func(t *T) {
		maker := t.newClient40().newOwner("maker", "f", 1, 0)
		maker.expectStatus(nfs4.OK, putFH(maker.fh), maker.closeOp(maker.nextSeqID(), new(nfs4.StateIDRes)))
		o := t.newClient40().newOwner("o", "other", 1, 0)
		var res nfs4.OpenRes
		o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("f", "", nfs4.ShareRead, 0), &res))
		assert.Equal(t, nfs4.DelegateNone, res.Delegation.Type)
	}},
}
