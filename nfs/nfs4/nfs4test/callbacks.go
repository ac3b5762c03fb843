package nfs4test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// callbackProgram is the scenarios' callback program number, and callbackIdent
// the NFSv4.0 callback_ident.
const (
	callbackProgram = 0x40000000
	callbackIdent   = 1
)

// A callback is one CB_RECALL received in a CB_COMPOUND.
type callback struct {
	recall nfs4.CBRecallArgs
}

// A backchannel is a connection on which the client replies to the server's
// callbacks.
type backchannel struct {
	*conn
	recalls      chan callback
	lockNotices  chan nfs4.CBNotifyLockArgs
	offloads     chan nfs4.CBOffloadArgs
	getAttrRes   func(a nfs4.CBGetAttrArgs) nfs4.GetAttrRes // the reply to CB_GETATTR; nil: NFS4ERR_BADHANDLE
	recallStatus func() nfs4.Status                         // the reply to CB_RECALL; nil: NFS4_OK
	stop         func()                                     // closes all connections, and accepts no more
}

// newBackchannelSession creates a client and a session whose backchannel has its own
// connection.
func (t *T) newBackchannelSession() (*session, *backchannel) {
	s := t.newClient().newSession().completeReclaim()
	c := t.dial()
	_, st := c.bindConn(s.id, nfs4.BindBack)
	require.Equal(t, nfs4.OK, st, "BIND_CONN_TO_SESSION")
	b := &backchannel{conn: c, recalls: make(chan callback, 16), lockNotices: make(chan nfs4.CBNotifyLockArgs, 16), offloads: make(chan nfs4.CBOffloadArgs, 16)}
	go b.serveCalls()
	// Linux probes the backchannel before it relies on it.
	time.Sleep(200 * time.Millisecond)
	return s, b
}

// serveCalls replies to callbacks until the connection closes.
func (b *backchannel) serveCalls() {
	for {
		msg, err := b.receiveMessage(time.Hour)
		if err != nil {
			return
		}
		if answer := b.answerCall(msg); answer != nil && b.trySend(answer) != nil {
			return
		}
	}
}

// answerCall returns the reply to a callback.
func (b *backchannel) answerCall(msg []byte) []byte {
	r := xdr.NewReader(msg)
	xid, kind := r.Uint32(), r.Uint32()
	if kind != rpcmsg.MsgCall {
		return nil
	}
	version, program := r.Uint32(), r.Uint32()
	assert.EqualValues(b.t, 2, version)
	assert.EqualValues(b.t, callbackProgram, program)
	assert.EqualValues(b.t, nfs4.CBVersion, r.Uint32())
	proc := r.Uint32()
	flavor := r.Uint32()
	r.Opaque(rpcmsg.MaxAuthBody)
	r.Uint32() // verifier
	r.Opaque(rpcmsg.MaxAuthBody)
	if b.t.Minor == nfs4.Minor0 && proc == nfs4.CBProcCompound {
		assert.Equal(b.t, rpcmsg.AuthSys, flavor, "RFC 7530, 3.3.3: the flavour of SETCLIENTID")
	}
	head := []byte{}
	for _, v := range []uint32{xid, rpcmsg.MsgReply, 0, rpcmsg.AuthNone, 0, 0} {
		head = xdr.AppendUint32(head, v)
	}
	if proc == nfs4.CBProcNull {
		return head
	}
	return b.appendCompoundRes(head, &r)
}

// appendCompoundRes decodes a CB_COMPOUND and appends its results.
func (b *backchannel) appendCompoundRes(out []byte, r *xdr.Reader) []byte {
	var a nfs4.CBCompoundArgs
	a.Decode(r)
	assert.Equal(b.t, b.t.Minor, a.Minor)
	if a.Minor == nfs4.Minor0 {
		assert.EqualValues(b.t, callbackIdent, a.Ident)
	} else {
		assert.Zero(b.t, a.Ident)
	}
	res := nfs4.CompoundRes{Tag: a.Tag}
	at := len(out)
	out = res.AppendTo(out)
	for res.N = 0; res.N < a.N && res.Status == nfs4.OK; res.N++ {
		op := nfs4.CBOp(r.Uint32())
		if a.Minor == nfs4.Minor0 {
			assert.Contains(b.t, []nfs4.CBOp{nfs4.CBOpGetAttr, nfs4.CBOpRecall}, op, "RFC 7530, 17.2: all that clients of 4.0 know")
		}
		switch op {
		case nfs4.CBOpSequence:
			var seq nfs4.CBSequenceArgs
			seq.Decode(r)
			assert.Zero(b.t, res.N)
			s := nfs4.CBSequenceRes{Session: seq.Session, Sequence: seq.Sequence, Slot: seq.Slot, HighestSlotID: seq.HighestSlotID, TargetHighestSlotID: seq.HighestSlotID}
			out = s.AppendTo(xdr.AppendUint32(out, uint32(op)))
		case nfs4.CBOpRecall:
			var c callback
			c.recall.Decode(r)
			c.recall.Object = slices.Clone(c.recall.Object)
			if b.recallStatus != nil {
				res.Status = b.recallStatus()
			}
			out = xdr.AppendUint32(xdr.AppendUint32(out, uint32(op)), uint32(res.Status))
			if res.Status == nfs4.OK {
				b.recalls <- c
			}
		case nfs4.CBOpGetAttr:
			var a nfs4.CBGetAttrArgs
			a.Decode(r)
			a.Object = slices.Clone(a.Object)
			answer := nfs4.GetAttrRes{Status: nfs4.ErrBadHandle}
			if b.getAttrRes != nil {
				answer = b.getAttrRes(a)
			}
			res.Status = answer.Status
			out = answer.AppendTo(xdr.AppendUint32(out, uint32(op)))
		case nfs4.CBOpNotifyLock:
			var a nfs4.CBNotifyLockArgs
			a.Decode(r)
			a.Object, a.Owner.Owner = slices.Clone(a.Object), slices.Clone(a.Owner.Owner)
			out = xdr.AppendUint32(xdr.AppendUint32(out, uint32(op)), uint32(nfs4.OK))
			b.lockNotices <- a
		case nfs4.CBOpOffload:
			var a nfs4.CBOffloadArgs
			a.Decode(r)
			a.Object = slices.Clone(a.Object)
			out = xdr.AppendUint32(xdr.AppendUint32(out, uint32(op)), uint32(nfs4.OK))
			b.offloads <- a
		default:
			res.Status = nfs4.ErrNotSupp
			out = xdr.AppendUint32(xdr.AppendUint32(out, uint32(op)), uint32(res.Status))
			r.Fixed(r.Left())
		}
	}
	assert.NoError(b.t, r.Done())
	res.Patch(out[at:])
	return out
}

// awaitNotifyLock waits for the next CB_NOTIFY_LOCK.
func (b *backchannel) awaitNotifyLock() nfs4.CBNotifyLockArgs {
	select {
	case a := <-b.lockNotices:
		return a
	case <-time.After(callLimit):
		b.t.Errorf("no CB_NOTIFY_LOCK within %v", callLimit)
		b.t.FailNow()
		return nfs4.CBNotifyLockArgs{}
	}
}

// awaitRecall waits for the next CB_RECALL.
func (b *backchannel) awaitRecall() nfs4.CBRecallArgs {
	select {
	case c := <-b.recalls:
		return c.recall
	case <-time.After(callLimit):
		b.t.Errorf("no CB_RECALL within %v", callLimit)
		b.t.FailNow()
		return nfs4.CBRecallArgs{}
	}
}
