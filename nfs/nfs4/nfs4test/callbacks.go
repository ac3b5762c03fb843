package nfs4test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// callbackProgram is the number of the scenarios' callback program, and
// callbackIdent what version 4.0 adds to it.
const (
	callbackProgram = 0x40000000
	callbackIdent   = 1
)

// A callback is one operation of a CB_COMPOUND behind CB_SEQUENCE.
type callback struct {
	recall nfs4.CBRecallArgs // of CB_RECALL
}

// A backchannel is a connection on which the server calls, and its client answers.
type backchannel struct {
	*conn
	calls  chan callback
	locks  chan nfs4.CBNotifyLockArgs
	ends   chan nfs4.CBOffloadArgs
	asked  func(a nfs4.CBGetAttrArgs) nfs4.GetAttrRes // the answer to CB_GETATTR; nil: NFS4ERR_BADHANDLE
	status func() nfs4.Status                         // of CB_RECALL; nil: NFS4_OK
	stop   func()                                     // ends all connections, and lets no more come
}

// backed makes a client with a session that the server can call back, over a
// connection of its own.
func (t *T) backed() (*session, *backchannel) {
	s := t.client().session().ready()
	c := t.dial()
	_, st := c.bind(s.id, nfs4.BindBack)
	require.Equal(t, nfs4.OK, st, "BIND_CONN_TO_SESSION")
	b := &backchannel{conn: c, calls: make(chan callback, 16), locks: make(chan nfs4.CBNotifyLockArgs, 16), ends: make(chan nfs4.CBOffloadArgs, 16)}
	go b.serve()
	// Linux looks whether the backchannel works before it relies on it.
	time.Sleep(200 * time.Millisecond)
	return s, b
}

// serve answers callbacks until the connection ends.
func (b *backchannel) serve() {
	for {
		msg, err := b.receiveAny(time.Hour)
		if err != nil {
			return
		}
		if answer := b.answerCall(msg); answer != nil && b.sendQuietly(answer) != nil {
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
	return b.compound4(head, &r)
}

// compound4 appends the results of a CB_COMPOUND.
func (b *backchannel) compound4(out []byte, r *xdr.Reader) []byte {
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
		switch op := nfs4.CBOp(r.Uint32()); op {
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
			if b.status != nil {
				res.Status = b.status()
			}
			out = xdr.AppendUint32(xdr.AppendUint32(out, uint32(op)), uint32(res.Status))
			if res.Status == nfs4.OK {
				b.calls <- c
			}
		case nfs4.CBOpGetAttr:
			var a nfs4.CBGetAttrArgs
			a.Decode(r)
			a.Object = slices.Clone(a.Object)
			answer := nfs4.GetAttrRes{Status: nfs4.ErrBadHandle}
			if b.asked != nil {
				answer = b.asked(a)
			}
			res.Status = answer.Status
			out = answer.AppendTo(xdr.AppendUint32(out, uint32(op)))
		case nfs4.CBOpNotifyLock:
			var a nfs4.CBNotifyLockArgs
			a.Decode(r)
			a.Object, a.Owner.Owner = slices.Clone(a.Object), slices.Clone(a.Owner.Owner)
			out = xdr.AppendUint32(xdr.AppendUint32(out, uint32(op)), uint32(nfs4.OK))
			b.locks <- a
		case nfs4.CBOpOffload:
			var a nfs4.CBOffloadArgs
			a.Decode(r)
			a.Object = slices.Clone(a.Object)
			out = xdr.AppendUint32(xdr.AppendUint32(out, uint32(op)), uint32(nfs4.OK))
			b.ends <- a
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

// notified returns the next CB_NOTIFY_LOCK.
func (b *backchannel) notified() nfs4.CBNotifyLockArgs {
	select {
	case a := <-b.locks:
		return a
	case <-time.After(callLimit):
		b.t.Errorf("no CB_NOTIFY_LOCK within %v", callLimit)
		b.t.FailNow()
		return nfs4.CBNotifyLockArgs{}
	}
}

// recalled returns the next recall.
func (b *backchannel) recalled() nfs4.CBRecallArgs {
	select {
	case c := <-b.calls:
		return c.recall
	case <-time.After(callLimit):
		b.t.Errorf("no CB_RECALL within %v", callLimit)
		b.t.FailNow()
		return nfs4.CBRecallArgs{}
	}
}
