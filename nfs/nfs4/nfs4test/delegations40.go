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

// backed40 makes a client of version 4.0 that listens for callbacks.
func (t *T) backed40() (*client, *backchannel) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	b := &backchannel{calls: make(chan callback, 16)}
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
			one := &backchannel{conn: &conn{t: t, nc: nc}, calls: b.calls}
			go func() {
				defer nc.Close()
				one.serve()
			}()
		}
	}()
	t.cleanup(b.stop)
	port := l.Addr().(*net.TCPAddr).Port
	c := &client{conn: t.dial(), owner: t.unique(), verifier: nfs4.Verifier{1}}
	c.callback = fmt.Sprintf("%s.%d.%d", cmp.Or(t.CallbackHost, "127.0.0.1"), port>>8, port&0xff)
	b.conn = c.conn
	res := c.set(nfs4.OK)
	c.id = res.ClientID
	c.confirm(nfs4.OK, res.ClientID, res.Confirm)
	return c, b
}

// delegated40 makes a file, and a client with a delegation of it, whose owner has
// the file open.
func (t *T) delegated40() (o *owner, b *backchannel, delegation nfs4.StateID) {
	maker := t.plain().newOwner("maker", "f", 1, 0)
	maker.want(nfs4.OK, putFH(maker.fh), maker.closeOp(maker.next(), new(nfs4.StateIDRes)))
	c, b := t.backed40()
	o = c.newOwner("o", "other", 1, 0)
	var res nfs4.OpenRes
	for deadline := time.Now().Add(callLimit); ; time.Sleep(200 * time.Millisecond) {
		c.want(nfs4.OK, putFH(t.dir()), o.openOp(o.next(), openName("f", "", nfs4.ShareRead, 0), &res))
		if res.Delegation.Type == nfs4.DelegateRead || time.Now().After(deadline) {
			break
		}
	}
	require.Equal(t, nfs4.DelegateRead, res.Delegation.Type)
	o.fh, o.id = maker.fh, res.StateID
	return o, b, res.Delegation.StateID
}

// delegations40 are scenarios of delegations by version 4.0, whose callbacks come
// over a connection of the server's.
var delegations40 = []Scenario{
	{Name: "a delegation", By: "RFC 7530, 10.4: it reads, and is returned", run: func(t *T) {
		o, _, id := t.delegated40()
		o.want(nfs4.OK, putFH(o.fh), read(id, 0, 1, new(nfs4.ReadRes)))
		o.want(nfs4.OK, putFH(o.fh), o.closeOp(o.next(), new(nfs4.StateIDRes)), read(id, 0, 1, new(nfs4.ReadRes)))
		o.want(nfs4.OK, putFH(o.fh), delegReturn(id))
		o.want(nfs4.ErrBadStateID, putFH(o.fh), delegReturn(id))
	}},
	{Name: "a delegation is recalled", By: "RFC 7530, 10.4.5, 15.2: by CB_RECALL over the server's connection", run: func(t *T) {
		o, b, id := t.delegated40()
		done := make(chan struct{})
		go func() {
			defer close(done)
			a := b.recalled()
			assert.Equal(t, id.Other, a.StateID.Other)
			assert.Equal(t, o.fh, a.Object)
			var res nfs4.OpenRes
			again := openName("f", "", nfs4.ShareRead, 0)
			again.Claim, again.StateID = nfs4.ClaimDelegateCur, id
			o.want(nfs4.OK, putFH(t.dir()), o.openOp(o.next(), again, &res))
			o.want(nfs4.OK, putFH(o.fh), delegReturn(id))
		}()
		other := t.plain()
		for deadline := time.Now().Add(callLimit); ; time.Sleep(100 * time.Millisecond) {
			rep := other.compound(putFH(t.dir()), remove("f"))
			if rep.status != nfs4.ErrDelay || time.Now().After(deadline) {
				assert.Equal(t, nfs4.OK, rep.status)
				break
			}
		}
		<-done
	}},
	{Name: "a delegation is recalled, whatever client the COMPOUND has named before", By: "RFC 7530, 10.4.4: anybody can know a client ID", Linux: "the named client keeps the delegation", run: func(t *T) {
		o, b, id := t.delegated40()
		other := t.plain()
		calls := [][]op{
			{releaseLockOwner(o.client.id, "none"), putFH(t.dir()), remove("f")},
			{{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: o.client.id}, status()}, putFH(o.fh), setAttr(nfs4.StateID{}, mode(0o600))},
		}
		for _, call := range calls {
			assert.Equal(t, nfs4.ErrDelay, other.compound(call...).status)
		}
		b.recalled()
		o.want(nfs4.OK, putFH(o.fh), delegReturn(id))
		for _, call := range slices.Backward(calls) {
			other.want(nfs4.OK, call...)
		}
	}},
	{Name: "RENEW while the callback does not work", By: "RFC 7530, 16.28.4: NFS4ERR_CB_PATH_DOWN to a client with delegations, whose lease is renewed all the same", Linux: "it does not say so within 10 s", run: func(t *T) {
		o, b, id := t.delegated40()
		b.stop()
		other := t.plain()
		renew := op{nfs4.OpRenew, &nfs4.ClientIDArgs{ClientID: o.client.id}, status()}
		var seen nfs4.Status
		for deadline := time.Now().Add(callLimit); seen != nfs4.ErrCBPathDown && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
			rep := other.compound(putFH(t.dir()), remove("f"))
			assert.Equal(t, nfs4.ErrDelay, rep.status)
			seen = o.compound(renew).status
		}
		assert.Equal(t, nfs4.ErrCBPathDown, seen)
		o.want(nfs4.OK, putFH(o.fh), read(o.id, 0, 1, new(nfs4.ReadRes)))
		o.want(nfs4.OK, putFH(o.fh), delegReturn(id))
		o.want(nfs4.OK, renew)
		other.want(nfs4.OK, putFH(t.dir()), remove("f"))
	}},
	{Name: "no delegation with an OPEN that must be confirmed", By: "RFC 7530, 9.1.11", run: func(t *T) {
		maker := t.plain().newOwner("maker", "f", 1, 0)
		maker.want(nfs4.OK, putFH(maker.fh), maker.closeOp(maker.next(), new(nfs4.StateIDRes)))
		c, _ := t.backed40()
		time.Sleep(300 * time.Millisecond)
		var res nfs4.OpenRes
		c.want(nfs4.OK, putFH(t.dir()), c.numbered(1, openName("f", "new", nfs4.ShareRead, 0), &res))
		assert.NotZero(t, res.Flags&nfs4.OpenConfirm)
		assert.Equal(t, nfs4.DelegateNone, res.Delegation.Type)
	}},
	{Name: "no delegation without a callback that answers", By: "RFC 7530, 10.2: the server tries CB_NULL before", run: func(t *T) {
		maker := t.plain().newOwner("maker", "f", 1, 0)
		maker.want(nfs4.OK, putFH(maker.fh), maker.closeOp(maker.next(), new(nfs4.StateIDRes)))
		o := t.plain().newOwner("o", "other", 1, 0)
		var res nfs4.OpenRes
		o.want(nfs4.OK, putFH(t.dir()), o.openOp(o.next(), openName("f", "", nfs4.ShareRead, 0), &res))
		assert.Equal(t, nfs4.DelegateNone, res.Delegation.Type)
	}},
}
